"""What a template brings into a config: text, whatever it holds. Who fills in a form writes a value and no config.

A file is YAML only after its template was rendered. So what an expression came to travels through YAML as a token that
no quotation mark, brace or comma in it can end, and is put into its scalar once the file has been parsed. In a scalar,
`${` is an interpolation, which may read the environment: it is one only where the author has written both characters.
Others are marked until everything is resolved, for a reference may take a value to where one more reader looks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

# Private-use characters: around a token, and in the place of $, { and \ that were brought in.
_TOKEN = re.compile("\ue0f2([0-9a-f]*)\ue0f3")
_AWAY = str.maketrans("${\\", "\ue0f4\ue0f5\ue0f6")
_BACK = str.maketrans("\ue0f4\ue0f5\ue0f6", "${\\")
_OPENING = re.compile("([\\\\\ue0f6]*)([$\ue0f4])([{\ue0f5])")
# Text that means itself wherever YAML has it, or a number, a boolean or null, as an author may want it to.
_PLAIN = re.compile(r"(?:-?[\w./+~][\w./+@~-]*(?:[ :=][\w./+@~-]+)*)?\Z")


def as_token(text: str) -> str:
    """A text as it may stand anywhere in a file of YAML, see `restored`; a word or number stands for itself."""
    if _PLAIN.match(text):
        return text
    return f"\ue0f2{text.encode('utf-8', 'surrogatepass').hex()}\ue0f3"


def as_flow(value: Any) -> str:
    """A value of JSON as YAML writes it on one line, each text of it in quotes and as a token where it has to be."""
    if isinstance(value, str):
        return f"'{as_token(value)}'"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{as_flow(str(key))}: {as_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(as_flow, value)) + "]"
    return json.dumps(value, default=str)


def has_token(text: str) -> bool:
    """Whether a scalar holds what was brought in as a token."""
    return "\ue0f2" in text


def restored(text: str) -> str:
    """A scalar with its tokens replaced by what they stand for, each marked."""
    parts = _TOKEN.split(text)
    parts[1::2] = [mark(bytes.fromhex(token).decode("utf-8", "surrogatepass")) for token in parts[1::2]]
    return "".join(parts)


def mark(text: str) -> str:
    """A text to be put into another one, so that `kept`, `settled`, `plain` and `interpolates` still know it there."""
    return text.translate(_AWAY)


def kept(text: str) -> str:
    """The text as a config holds it until all is resolved: with its marks, if they are for anything."""
    return text if _OPENING.search(text) else plain(text)


def settled(text: str, path: Sequence[str]) -> str:
    """What a text comes to once all is resolved, whichever places of the config it was copied through.

    Below `run` and `prepare` there is one more reader: gym's own Hydra, with the job's environment. There it is spelt
    so that what is marked is no interpolation, nor makes or unmakes one of the author's.
    """
    return plain(_OPENING.sub(_escaped, text) if read_again(path) else text)


def read_again(path: Sequence[str]) -> bool:
    """Whether a value there is given to gym, which resolves interpolations in it."""
    return any(key in ("run", "prepare") for key in path[:-1])


def plain(text: str) -> str:
    """The text without marks, as it is."""
    return text.translate(_BACK)


def interpolates(text: str) -> bool:
    """Whether what is marked in it would begin an interpolation."""
    return any(found[2] + found[3] != "${" for found in _OPENING.finditer(text))


def _escaped(found: re.Match[str]) -> str:
    if found[2] + found[3] == "${":
        return found[1].replace("\ue0f6", "\\\\") + "${"
    return "\\" * (2 * len(found[1]) + 1) + "${"
