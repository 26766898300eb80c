"""What a template brings into a config: text, whatever it holds. Who fills in a form writes a value and no config.

A file is YAML only after its template was rendered. So what an expression came to travels through YAML as a token that
no quotation mark, brace or comma in it can end, and is put into its scalar once the file has been parsed. In a scalar,
`${` is an interpolation, which may read the environment: it is one only where the author has written both characters.
So what was brought in is marked until everything is resolved: a reference may take it to where one more reader looks,
be that gym's own Hydra or a shell.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

# Private-use characters: around a token, around what was brought in, and in the place of $, { and \ in that.
_TOKEN = re.compile("\ue0f2([0-9a-f]*)-([0-9a-f]*)\ue0f3")
_OPEN, _CLOSE = "\ue0f7", "\ue0f8"
_AWAY = str.maketrans("${\\", "\ue0f4\ue0f5\ue0f6")
_BACK = str.maketrans("\ue0f4\ue0f5\ue0f6", "${\\", _OPEN + _CLOSE)
_NO_BOUNDS = str.maketrans("", "", _OPEN + _CLOSE)
_OPENING = re.compile("([\\\\\ue0f6]*)([$\ue0f4])([{\ue0f5])")
# Text that means itself wherever YAML or a shell has it, or a number, a boolean or null, as an author may want it to.
# No option ("-x", "a --b") and no entry of `env` that reads a variable ("host:X").
_NUMBER = r"-?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?"
_WORDS = r"[\w./+~][\w./+@~-]*(?:[ :=][\w./+@~][\w./+@~-]*)*"
_PLAIN = re.compile(rf"(?!(?:host|runtime):)(?:{_NUMBER}|{_WORDS})?\Z")
# A token where only a word may stand, as in Hydra's grammar of overrides; nobody who fills in a form knows its number.
_NONCE = secrets.token_hex(8)
_WORD = re.compile(f"_{_NONCE}_((?:[0-9a-f]{{2}})*)_")
_KEY = re.compile(r"[A-Za-z_][\w-]*\Z", re.ASCII)


def as_token(text: str) -> str:
    """A text as it may stand anywhere in a file of YAML, see `restored`; a word or number stands for itself.

    Tokens in it are of a block whose text became part of another one. Raises ValueError for one that is damaged.
    """
    if _PLAIN.match(text):
        return text
    text = _opened(text, str)
    digits = text.encode("utf-8", "surrogatepass").hex()
    return f"\ue0f2{digits}-{_check(digits)}\ue0f3"


def _check(digits: str) -> str:
    return blake2b(digits.encode(), digest_size=8, key=_NONCE.encode()).hexdigest()


def as_word(text: str) -> str:
    """A text as it may stand anywhere in an override, see `from_words`; a word or number stands for itself."""
    return text if _PLAIN.match(text) else f"_{_NONCE}_{text.encode('utf-8', 'surrogatepass').hex()}_"


def as_flow(value: Any) -> str:
    """A value of JSON as YAML writes it on one line, each text of it in quotes and as a token where it has to be."""
    return _flow(value, as_token, lambda key: f"'{as_token(key)}'")


def as_words(value: Any) -> str:
    """A value of JSON as Hydra's grammar writes it, each text of it in quotes and as a word where it has to be."""
    return _flow(value, as_word, lambda key: key if _KEY.match(key) else as_word(key))


def _flow(value: Any, token: Callable[[str], str], key: Callable[[str], str]) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key(str(name))}: {_flow(item, token, key)}" for name, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_flow(item, token, key) for item in value) + "]"
    if value is None or isinstance(value, bool | int | float):
        return json.dumps(value)
    return f"'{token(str(value))}'"


def has_token(text: str) -> bool:
    """Whether a scalar holds what was brought in as a token, whole or in parts."""
    return "\ue0f2" in text or "\ue0f3" in text


def restored(text: str) -> str:
    """A scalar with its tokens replaced by what they stand for, each marked. Raises ValueError for a damaged one."""
    return _opened(text, mark)


def _opened(text: str, change: Callable[[str], str]) -> str:
    parts = _TOKEN.split(text)
    whole = all(_check(digits) == check for digits, check in zip(parts[1::3], parts[2::3], strict=True))
    if not whole or any(has_token(part) for part in parts[::3]):
        raise ValueError("what a template brings in was changed on its way, as by a filter over a block of text")
    found = [change(bytes.fromhex(digits).decode("utf-8", "surrogatepass")) for digits in parts[1::3]]
    return "".join(part for pair in zip(parts[::3], [*found, ""], strict=True) for part in pair)


def from_words(text: str) -> str:
    """A text of an override with its words replaced by what they stand for, each marked."""
    return _WORD.sub(lambda found: mark(bytes.fromhex(found[1]).decode("utf-8", "surrogatepass")), text)


def whole(text: str) -> str:
    """A text that a template wrote from its first character to its last, as it is: its author wants it to be written
    elsewhere. Not with `$` or a backslash in it: who can write a value there is not to read the environment.
    """
    found = _WORD.fullmatch(text)
    raw = plain(from_words(text)) if found else text
    return text if "$" in raw or "\\" in raw else raw


def mark(text: str) -> str:
    """A text that was brought in, so that it is known as such until it is `settled`; a word or number is nobody's."""
    return text if _PLAIN.match(text) else f"{_OPEN}{inert(text.translate(_NO_BOUNDS))}{_CLOSE}"


def inert(text: str) -> str:
    """A text in which nothing is an interpolation, nor becomes one beside another text, until it is `settled`."""
    return text.translate(_AWAY)


def settled(text: str, path: Sequence[str]) -> str:
    """What a text comes to once all is resolved, whichever places of the config it was copied through.

    Where there is one more reader, gym's own Hydra with the job's environment, it is spelt so that what was brought in
    is no interpolation there, nor makes or unmakes one of the author's.
    """
    if read_again(path) or tuple(path) == ("driver", "policy_host"):
        text = _OPENING.sub(_escaped, text.translate(_NO_BOUNDS))
    return plain(text)


def read_again(path: Sequence[str]) -> bool:
    """Whether a value there is given to gym, which resolves interpolations in it."""
    return any(key in ("run", "prepare") for key in path[:-1])


def plain(text: str) -> str:
    """The text without marks, as it is."""
    return text.translate(_BACK)


def is_marked(text: str) -> bool:
    """Whether part of it was brought in, and is more than a word."""
    return _OPEN in text


def begins(text: str, prefix: str) -> bool:
    """Whether it begins so by what was brought in."""
    return text.startswith(_OPEN) and plain(text).startswith(prefix)


def _escaped(found: re.Match[str]) -> str:
    if found[2] + found[3] == "${":
        return found[1].replace("\ue0f6", "\\\\") + "${"
    return "\\" * (2 * len(found[1]) + 1) + "${"
