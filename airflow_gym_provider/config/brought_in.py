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

# Private-use characters: around a token, around what was brought in, and in the place of what has a meaning for
# OmegaConf in that. Others stand in the place of what is the author's or the environment's, and text all the same.
_TOKEN = re.compile("\ue0f2([0-9a-f]*)-([0-9a-f]*)\ue0f3")
_OPEN, _CLOSE = "\ue0f7", "\ue0f8"
_SIGNS, _MARKED, _INERT = "${\\'\"", "\ue0f4\ue0f5\ue0f6\ue0f9\ue0fa", "\ue0fb\ue0fc\ue0fd\ue0fe\ue0ff"
_AWAY = str.maketrans(_SIGNS, _MARKED)
_ASIDE = str.maketrans(_SIGNS, _INERT)
_BACK = str.maketrans(_MARKED + _INERT, _SIGNS * 2, _OPEN + _CLOSE)
_NO_BOUNDS = str.maketrans("", "", _OPEN + _CLOSE)
_OPENING = re.compile("(?<![\\\\\ue0f6\ue0fd])([\\\\\ue0f6\ue0fd]*)([$\ue0f4\ue0fb])([{\ue0f5\ue0fc])")
_OF_A_TEMPLATE = re.compile(f"[{_OPEN}{_CLOSE}{_MARKED}]")
_REGION = re.compile(f"{_OPEN}([^{_CLOSE}]*){_CLOSE}")
# More than _PLAIN has, and no option of a command either.
_OF_A_SHELL = re.compile(r"[\w./+@%,:=][\w./+@%,:=~-]*(?: [\w./+@%,:=][\w./+@%,:=~-]*)*\Z")
# Text that means itself wherever YAML or a shell has it, or a number, a boolean or null, as an author may want it to.
# No option ("-x", "a --b"), no "~" for a home and no "@", which names a package in a `defaults:` list. No "host:X",
# with which an entry of `env` reads a variable, nor a piece that such a prefix could be put together from.
_NUMBER = r"-?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?"
_WORDS = r"[\w./+][\w./+-]*(?:[ :=][\w./+][\w./+-]*)*"
_PREFIXES = ("host", "runtime")
_READS_VARIABLE = rf"(?<!\w)(?:{'|'.join(_PREFIXES)}):[A-Za-z_]"
_ENDS = "|".join(word[at:] for word in _PREFIXES for at in range(len(word)))
_PIECES = "|".join(end[:size] for end in _ENDS.split("|") for size in range(1, len(end) + 1))
_PLAIN = re.compile(rf"(?!.*{_READS_VARIABLE}|(?:{_ENDS}):|(?:{_PIECES})\Z)(?:{_NUMBER}|{_WORDS})?\Z")
_NAME = re.compile(r"[\w./+][\w./+-]*\Z")
# A token where only a word may stand, as in Hydra's grammar of overrides; nobody who fills in a form knows its number.
_NONCE = secrets.token_hex(8)
_WORD = re.compile(f"_{_NONCE}_([0-9a-f]*)_([0-9a-f]{{16}})_")
_KEY = re.compile(r"[A-Za-z_][\w-]*\Z", re.ASCII)


def as_token(text: str) -> str:
    """A text as it may stand anywhere in a file of YAML, see `restored`; a word or number stands for itself.

    Tokens in it are of a block whose text became part of another one. Raises ValueError for one that is damaged.
    """
    if _PLAIN.match(text):
        return text
    digits = _digits(_opened(text, str))
    return f"\ue0f2{digits}-{_check(digits)}\ue0f3"


def _digits(text: str) -> str:
    return text.encode("utf-8", "surrogatepass").hex()


def _check(digits: str) -> str:
    return blake2b(digits.encode(), digest_size=8, key=_NONCE.encode()).hexdigest()


def as_word(text: str) -> str:
    """A text as it may stand anywhere in an override, see `from_words`; a word or number stands for itself.

    Words in it are of a block, as in `as_token`; with a damaged one the override will be refused.
    """
    try:
        text = plain(from_words(text))
    except ValueError:
        return text
    if _PLAIN.match(text) and ":" not in text:  # which makes an entry in a mapping there
        return text
    digits = _digits(text)
    return f"_{_NONCE}_{digits}_{_check(digits)}_"


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
    return _put_back(_TOKEN, text, change, has_token)


def _put_back(token: re.Pattern[str], text: str, change: Callable[[str], str], is_left: Callable[[str], bool]) -> str:
    parts = token.split(text)
    intact = all(_check(digits) == check for digits, check in zip(parts[1::3], parts[2::3], strict=True))
    if not intact or any(is_left(part) for part in parts[::3]):
        raise ValueError(
            "what a template brings in was changed on its way, as by a filter over a block of text; "
            "write {{ … | tojson }} for each value"
        )
    found = [change(bytes.fromhex(digits).decode("utf-8", "surrogatepass")) for digits in parts[1::3]]
    return "".join(part for pair in zip(parts[::3], [*found, ""], strict=True) for part in pair)


def from_words(text: str) -> str:
    """A text of an override with its words replaced by what they stand for, each marked. Raises ValueError for a
    damaged one.
    """
    return _put_back(_WORD, text, mark, has_word)


def has_word(text: str) -> bool:
    """Whether a text of an override holds what was brought in, whole or in parts."""
    return _NONCE in text.lower()


def with_names(text: str) -> str:
    """A text of an override in which each word that is no more than a name stands for itself, as it may in a key."""
    return _WORD.sub(_named, text)


def _named(found: re.Match[str]) -> str:
    name = plain(from_words(found[0]))
    return name if _NAME.match(name) else found[0]


def whole(text: str) -> str:
    """A text that a template wrote from its first character to its last, as it is: its author wants it to be written
    elsewhere. Not with `$`, a backslash or `host:` in it: who can write a value there is not to read the environment.
    """
    if not _WORD.fullmatch(text):
        return text
    raw = plain(from_words(text))
    if re.search(_READS_VARIABLE, raw):
        return text
    return raw if raw.startswith("@") or not ("$" in raw or "\\" in raw) else text


class FilledIn(str):
    """A variable's value that a template wrote: text wherever it is read, whatever it holds."""

    __slots__ = ()


def mark(text: str) -> str:
    """A text that was brought in, so that it is known as such until it is `settled`; a word or number is nobody's."""
    return text if _PLAIN.match(text) else f"{_OPEN}{text.translate(_NO_BOUNDS).translate(_AWAY)}{_CLOSE}"


def inert(text: str) -> str:
    """A text in which nothing is an interpolation, nor becomes one beside another text, until it is `settled`. It is
    not for that one of a template's.
    """
    return text.translate(_ASIDE)


def settled(text: str, path: Sequence[str]) -> str:
    """What a text comes to once all is resolved, whichever places of the config it was copied through.

    Where there is one more reader, gym's own Hydra with the job's environment, it is spelt so that what was brought in
    is no interpolation there, nor makes or unmakes one of the author's.
    """
    if read_again(path) or tuple(path) == ("driver", "policy_host"):
        text = _OPENING.sub(_escaped, text.translate(_NO_BOUNDS))
    return plain(text)


def read_again(path: Sequence[str]) -> bool:
    """Whether a value there is given to gym, which resolves interpolations in it. Names of services and benchmarks are
    free, and may come from a form: it is the place that counts.
    """
    return tuple(path[:2]) == ("driver", "benchmarks") and len(path) > 4 and path[3] in ("run", "prepare")


def plain(text: str) -> str:
    """The text without marks, as it is."""
    return text.translate(_BACK)


def is_marked(text: str) -> bool:
    """Whether part of it was brought in, and is more than a word."""
    return _OF_A_TEMPLATE.search(text) is not None


def parts_brought_in(text: str) -> list[str]:
    """What was brought into a text, as it is: each part that is more than a word."""
    return [plain(part) for part in _REGION.split(text)[1::2]]


def is_more_than_words(text: str) -> bool:
    """Whether part of it was brought in and could be more to a shell than words: options included."""
    found = _REGION.split(text)
    return any(map(is_marked, found[::2])) or not all(_OF_A_SHELL.match(plain(part)) for part in found[1::2])


def _escaped(found: re.Match[str]) -> str:
    if found[2] + found[3] == "${":
        return found[1].replace("\ue0f6", "\\\\").replace("\ue0fd", "\\\\") + "${"
    return "\\" * (2 * len(found[1]) + 1) + "${"
