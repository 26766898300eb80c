"""Taking secrets out of a text: what a value may look like there, and which values are not worth it."""

from __future__ import annotations

import base64
import html
import json
import re
import shlex
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from urllib.parse import quote, quote_plus

SHORTEST = 5
"""Characters. As of Airflow's masker: without "1" or "true" nothing would be readable."""
STARS = "***"
CREDENTIAL = re.compile(
    r"TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|PRIVATE|API_?KEY|ACCESS_?KEY|(?:^|_)(?:KEY|PAT|AUTH)(?:_|$)", re.I
)
"""Found in the names of variables that hold credentials: shown as references wherever they are used."""
NOT_SHOWN = "not shown, as it may be a secret"
_NAME_IN_CAPITALS = re.compile(r"[A-Z_][A-Z0-9_]*\Z")
# An access key, or a secret in base32: capitals and digits without a word in them.
_RANDOM = re.compile(r"(?=[A-Z]*[0-9])[A-Z0-9]{16}")
_NAME_AND_VALUE = re.compile(r"([^=:]*)([=:])(.*)", re.DOTALL)
_FEWEST_DIGITS = 8
# What bash's own %q escapes one by one.
_BASH_SPECIAL = re.compile(r"""^[#~]|(?<=[=:])~|[ \t!"$&'()*,;<>?\[\\\]^`{|}]""")
_LONGEST_ENCODED = 16 * 1024
_MOST_LINES = 8
_LONGEST_WRAPPED = 4 * 1024
_FEWEST_ENCODED = 8
_PERCENT = re.compile("%[0-9A-F]{2}")
# Settings rather than secrets, and in every other line of a log.
_WORDS = frozenset({"false", "dummy", "empty", "default", "debug", "local", "localhost"})


def worth_hiding(text: str, shortest: int = SHORTEST) -> bool:
    """Whether a text is no common word, no short number and not shorter than `shortest` characters."""
    if len(text) < shortest or text.lower() in _WORDS:
        return False
    return not (text.isdecimal() and len(text) < _FEWEST_DIGITS)


def name_to_show(text: str) -> str | None:
    """What may be repeated of a text that stands where a variable's name belongs; None where nothing may be.

    Whoever takes the value itself for what belongs there has written a secret. A name in capitals is repeated, and a
    text that is not `worth_hiding`; of ``NAME=value`` the name alone.
    """
    pair = _NAME_AND_VALUE.match(text)
    if not pair:
        return text if _is_no_secret(text) else None
    name, sign, rest = pair.groups()
    if sign == ":" and name in ("host", "lit", "runtime") and _NAME_IN_CAPITALS.match(rest) and _is_no_secret(rest):
        return text
    return f"{name}{sign}…" if _is_no_secret(name) else None


def _is_no_secret(name: str) -> bool:
    return bool(_NAME_IN_CAPITALS.match(name) and not _RANDOM.search(name)) or not worth_hiding(name)


def shapes(values: Iterable[str], shortest: int = SHORTEST) -> list[str]:
    """What to look for in a text that may hold one of these values; longer texts come first.

    A value itself; each of its lines, as most texts are read line by line; and both within JSON, a Python `repr`, a
    shell word, YAML, HTML, a URL and base64, alone or behind a name as in HTTP's basic authentication; within JSON or a
    `repr` that is itself written as JSON or a `repr`; and with its accents composed or not. Values that are not
    `worth_hiding` are left out; of those above 16 KB only the plain lines and those within JSON are told, and of those
    of more than 8 lines the lines as they are and within JSON, since whoever looks for them does so for each.
    """
    found: set[str] = set()
    for value in values:
        if worth_hiding(value, shortest):
            found.update(_all_shapes(value))
            lines = [line.strip("\r") for line in value.split("\n")]
            of_line = _all_shapes if len(lines) <= _MOST_LINES else _plain_shapes
            found.update(shape for line in lines if worth_hiding(line, shortest) for shape in of_line(line))
    return sorted((text for text in found if len(text) >= shortest), key=lambda text: (-len(text), text))


def hide(text: str, values: Iterable[str], shortest: int = SHORTEST, by: str = STARS) -> str:
    """The text with every shape of these values replaced."""
    for shape in shapes(values, shortest):
        text = text.replace(shape, by)
    return text


_hider: ContextVar[Callable[[str], str]] = ContextVar("hider", default=str)


@contextmanager
def hiding_by(hider: Callable[[str], str]) -> Iterator[None]:
    """Within it, `unsaid` takes out what this hider does, too."""
    outer = _hider.get()
    token = _hider.set(lambda text: hider(outer(text)))
    try:
        yield
    finally:
        _hider.reset(token)


def unsaid(text: str) -> str:
    """A text that is going to be cut, without what is to be hidden: nobody would find half of a secret in it."""
    return _hider.get()(text)


def taken_out(text: str, left: str) -> set[str]:
    """What was replaced in a text of which `left` is left, with STARS in its places."""
    if STARS in text or text == left:
        return set()
    first, *others = left.split(STARS)
    found, at = set(), len(first)
    for number, part in enumerate(others):
        last = number == len(others) - 1
        if not (part or last):
            continue  # two beside each other are one
        end = len(text) - len(part) if last else text.find(part, at + 1)
        if end <= at:
            break
        found.add(text[at:end])
        at = end + len(part)
    return found


def _plain_shapes(text: str) -> Iterator[str]:
    for spelt in {text, unicodedata.normalize("NFC", text), unicodedata.normalize("NFD", text)}:
        yield spelt
        yield from _as_json(spelt)


def _all_shapes(text: str) -> Iterator[str]:
    yield from _plain_shapes(text)
    if len(text) > _LONGEST_ENCODED:
        return
    data = text.encode("utf-8", "surrogateescape")
    if text.count("\n") < _MOST_LINES:
        yield from _quoted(text, data)
    for url in (quote(text, safe=""), quote(text), quote_plus(text)):
        yield from (url, _PERCENT.sub(lambda found: found[0].lower(), url))
    yield from _base64(data)
    if len(data) <= _LONGEST_WRAPPED:
        yield from _wrapped_base64(data)


def _quoted(text: str, data: bytes) -> Iterator[str]:
    for inner in (repr(text)[1:-1], *_as_json(text)):
        yield from (inner, repr(inner)[1:-1], *_as_json(inner))
    yield from (repr(data)[2:-1], repr(data + b"'")[2:-2], repr(text + "'")[1:-2])
    yield from _in_bash(text, data)
    yield text.replace("'", "''")
    yield from (html.escape(text, quote=False), html.escape(text), html.escape(text).replace("&#x27;", "&#39;"))


def _as_json(text: str) -> Iterator[str]:
    yield json.dumps(text)[1:-1]
    yield json.dumps(text, ensure_ascii=False)[1:-1]
    yield json.dumps(text)[1:-1].replace("/", "\\/")


def _in_bash(text: str, data: bytes) -> Iterator[str]:
    """As a word of %q, of a script of ours, of `export -p`, and of bash in a locale that lacks its characters."""
    yield text.replace("'", "'\\''")
    yield _BASH_SPECIAL.sub(r"\\\g<0>", text)
    yield shlex.quote(text).removeprefix("'").removesuffix("'")
    yield re.sub(r"[\\\"$`]", r"\\\g<0>", text)
    yield "".join(f"\\{byte:03o}" if byte > 0x7E else f"\\{byte:c}" if byte in b"\\'" else chr(byte) for byte in data)


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


def _wrapped_base64(data: bytes) -> Iterator[str]:
    """In lines of 64 or 76 characters, as openssl and base64 write what is longer."""
    for size in (48, 57):
        lines = [base64.b64encode(data[at : at + size]).decode().rstrip("=") for at in range(0, len(data), size)]
        if len(lines) > 1:
            yield from (line for line in lines if len(line) >= _FEWEST_ENCODED)


_URL_SAFE = str.maketrans("+/", "-_")
