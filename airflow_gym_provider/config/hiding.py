"""Taking secrets out of a text: what a value may look like there, and which values are not worth it."""

from __future__ import annotations

import base64
import json
import re
import shlex
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus

SHORTEST = 5
"""Characters. As of Airflow's masker: without "1" or "true" nothing would be readable."""
STARS = "***"
CREDENTIAL = re.compile(
    r"TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|PRIVATE|API_?KEY|ACCESS_?KEY|(?:^|_)(?:KEY|PAT|AUTH)(?:_|$)", re.I
)
"""Found in the names of variables that hold credentials: shown as references wherever they are used."""
_FEWEST_DIGITS = 8
# What bash's own %q escapes one by one.
_BASH_SPECIAL = re.compile(r"""^[#~]|(?<=[=:])~|[ \t!"$&'()*,;<>?\[\\\]^`{|}]""")
_LONGEST_ENCODED = 16 * 1024
_FEWEST_ENCODED = 8
# Settings rather than secrets, and in every other line of a log.
_WORDS = frozenset({"false", "dummy", "empty", "default", "debug", "local", "localhost"})


def worth_hiding(text: str, shortest: int = SHORTEST) -> bool:
    """Whether a text is no common word, no short number and not shorter than `shortest` characters."""
    if len(text) < shortest or text.lower() in _WORDS:
        return False
    return not (text.isdecimal() and len(text) < _FEWEST_DIGITS)


def shapes(values: Iterable[str], shortest: int = SHORTEST) -> list[str]:
    """What to look for in a text that may hold one of these values; longer texts come first.

    A value itself; each of its lines, as most texts are read line by line; and both within JSON, a Python `repr`, a
    shell word, a URL and base64, alone or behind a name as in HTTP's basic authentication. Values that are not
    `worth_hiding` are left out; of those above 16 KB only the plain lines and those within JSON are told.
    """
    found: set[str] = set()
    for value in values:
        if worth_hiding(value, shortest):
            pieces = {value, *(line.strip("\r") for line in value.split("\n"))}
            found.update(shape for piece in pieces if worth_hiding(piece, shortest) for shape in _shapes(piece))
    return sorted((text for text in found if len(text) >= shortest), key=lambda text: (-len(text), text))


def hide(text: str, values: Iterable[str], shortest: int = SHORTEST, by: str = STARS) -> str:
    """The text with every shape of these values replaced."""
    for shape in shapes(values, shortest):
        text = text.replace(shape, by)
    return text


def _shapes(text: str) -> Iterator[str]:
    yield text
    yield json.dumps(text)[1:-1]
    yield json.dumps(text, ensure_ascii=False)[1:-1]
    if len(text) > _LONGEST_ENCODED:
        return
    yield repr(text)[1:-1]
    yield text.replace("'", "'\\''")
    yield _BASH_SPECIAL.sub(r"\\\g<0>", text)
    yield shlex.quote(text).removeprefix("'").removesuffix("'")
    yield from (quote(text, safe=""), quote(text), quote_plus(text))
    yield from _base64(text.encode("utf-8", "surrogateescape"))


def _base64(data: bytes) -> Iterator[str]:
    """Without the characters at its ends that depend on what stands before and after, for all three places that text
    may have in the whole.
    """
    for before in range(3):
        whole = base64.b64encode(b"\0" * before + data).decode()
        first = -(-before * 8 // 6)
        text = whole[first : (before + len(data)) * 8 // 6]
        if len(text) >= _FEWEST_ENCODED:
            yield from (text, text.translate(_URL_SAFE))


_URL_SAFE = str.maketrans("+/", "-_")
