"""A YAML value that remembers how it was written.

YAML 1.1 turns ``12:00:00`` into 43200, ``7031e56`` into a huge float and ``off`` into False. A field that wants text must
get the text as written, one that wants a number the number. So a plain scalar whose text cannot be told from its value
travels through composition as a :class:`Scalar`, and the field that receives it picks the side it needs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

_BOOLS = {
    **dict.fromkeys(("true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"), False),
}
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
# Leading zeros (octal in YAML 1.1) and base 60 are left out on purpose: nobody who writes 0755 or 4:00:00 in a submit
# config means the number that YAML makes of it, so these stay text everywhere.
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9_]*)\Z")
_BASED_INT = re.compile(r"[-+]?0(?:x[0-9a-fA-F_]+|b[01_]+)\Z")
_FLOAT = re.compile(r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?|[0-9][0-9_]*[eE][-+]?[0-9]+)\Z")
_SPECIAL_FLOATS = re.compile(r"(?:(?P<sign>[-+]?)\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z")


@dataclass(frozen=True)
class Scalar:
    """A bool or number (``value``) together with its spelling (``text``)."""

    text: str
    value: bool | int | float

    def __str__(self) -> str:
        """Return the spelling: what an interpolation inside a longer string must see."""
        return self.text


def read_plain(text: str) -> Any:
    """Value of an unquoted YAML scalar: None, bool, int, float or str, as a Scalar where the spelling would be lost."""
    if text in _NULLS:
        return None
    value = _typed(text)
    if isinstance(value, str) or str(value) == text or text in ("true", "false"):
        return value
    return Scalar(text, value)


def plain_value(value: Any) -> Any:
    """``value`` without any Scalar inside, for fields that take any YAML (a benchmark's ``run``)."""
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
    if _INT.match(text) and len(text) <= 400:
        return int(text.replace("_", ""))
    if _BASED_INT.match(text):
        return _based(text)
    if special := _SPECIAL_FLOATS.match(text):
        return float(f"{special['sign'] or ''}inf") if "n" in text.lower() and "i" in text.lower() else float("nan")
    return float(text.replace("_", "")) if _FLOAT.match(text) else text


def _based(text: str) -> int | str:
    """Hexadecimal or binary; the text itself when only underscores follow the prefix."""
    try:
        return int(text.replace("_", ""), 0)
    except ValueError:
        return text
