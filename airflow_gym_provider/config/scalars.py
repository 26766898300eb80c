"""A YAML value that remembers how it was written.

YAML 1.1 turns ``12:00:00`` into 43200, ``7031e56`` into a huge float and ``off`` into False. A field that wants text
must get the text as written, one that wants a number the number. So a plain scalar whose text cannot be told from its
value travels through composition as a :class:`Scalar`, and the field that receives it picks the side it needs.
"""

from __future__ import annotations

import re
from typing import Any

_BOOLS = {
    **dict.fromkeys(("true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"), False),
}
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
# Leading zeros (octal in YAML 1.1) and base 60 are left out on purpose: nobody who writes 0755 or 4:00:00 in a submit
# config means the number that YAML makes of it, so these stay text everywhere.
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9_]{0,400})\Z")
_BASED_INT = re.compile(r"[-+]?0(?:x_*[0-9a-fA-F][0-9a-fA-F_]*|b_*[01][01_]*)\Z")
_EXPONENT = r"(?:[eE][-+]?[0-9]+)"
_FLOAT = re.compile(rf"[-+]?(?:[0-9][0-9_]*\.[0-9_]*{_EXPONENT}?|\.[0-9][0-9_]*{_EXPONENT}?|[0-9][0-9_]*{_EXPONENT})\Z")
_INFINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)\Z")
_NOT_A_NUMBER = re.compile(r"\.(?:nan|NaN|NAN)\Z")


class Scalar:
    """A bool or number (``value``) together with its spelling (``text``). ``str`` is the spelling.

    Not a dataclass, because OmegaConf would take one apart.
    """

    __slots__ = ("text", "value")

    def __init__(self, text: str, value: bool | int | float) -> None:
        self.text = text
        self.value = value

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Scalar({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scalar) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


class Unresolved:
    """Marks a place whose value could not be read or worked out; the reason is among the problems already."""

    def __repr__(self) -> str:
        return "(unresolved)"


def read_plain(text: str) -> Any:
    """Value of an unquoted YAML scalar: None, a bool, an int, a Scalar where the spelling would be lost, or the text.

    ``true`` and ``false`` become plain bools and canonical integers plain ints; everything else that is not text is a
    Scalar, floats always.
    """
    if text in _NULLS:
        return None
    if text in ("true", "false"):
        return text == "true"
    value = _typed(text)
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool) and str(value) == text):
        return value
    return Scalar(text, value)


def plain_value(value: Any) -> Any:
    """Return ``value`` without any Scalar inside, for fields that take any YAML (a benchmark's ``run``)."""
    if isinstance(value, Scalar):
        return value.value
    if isinstance(value, dict):
        return {str(key): plain_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_value(item) for item in value]
    return value


def _typed(text: str) -> bool | int | float | str:
    """Text to bool, int or float by the spellings that OmegaConf's loader knows; else the text itself."""
    if text in _BOOLS:
        return _BOOLS[text]
    if _INT.match(text):
        return int(text.replace("_", ""))
    if _BASED_INT.match(text):
        return int(text.replace("_", ""), 0)
    if _FLOAT.match(text):
        return float(text.replace("_", ""))
    if _INFINITE.match(text):
        return float("-inf" if text.startswith("-") else "inf")
    return float("nan") if _NOT_A_NUMBER.match(text) else text
