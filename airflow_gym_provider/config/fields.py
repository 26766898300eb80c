"""Field types shared by the models: text, names, counts, ports. Each refuses nonsense with a sentence, not a code."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict
from pydantic_core import PydanticCustomError

from airflow_gym_provider.config.durations import DURATION_FORMS, parse_duration
from airflow_gym_provider.config.hiding import NOT_SHOWN, name_to_show, unsaid
from airflow_gym_provider.config.scalars import Scalar, plain_value

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_LONGEST_SHOWN = 120
_LONGEST_LINE = 131_000  # bytes; Linux passes 131,071 in one argument, which may have an option's name in it
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})\Z")
_NUMBER = re.compile(r"[-+]?[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?\Z")
_TRUE, _FALSE = {"true", "yes", "on", "1"}, {"false", "no", "off", "0"}
A_VARIABLE = "an environment variable (letters, digits and _, no digit first)"
VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class StrictModel(BaseModel):
    """Base of every section: unknown keys are errors, instances do not change, inputs never appear in an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, validate_default=False)


def refuse(sentence: str, *, unset: str | None = None) -> PydanticCustomError:
    """Return the error to raise from a validator; ``sentence`` is shown to people as it is. ``unset``: see Problem."""
    return PydanticCustomError("gym", "{sentence}", {"sentence": sentence, "unset": unset})


def as_text(value: Any) -> str:
    """Text as it was written; a bare number in YAML keeps its spelling. Refuses null, booleans, lists and NUL."""
    if isinstance(value, Scalar):
        value = value.text
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        # A float that comes without its spelling (1.10 is 1.1 by now) cannot be given back, so it is refused too.
        cure = "; put it in quotes" if isinstance(value, (bool, float)) else ""
        raise refuse(f"must be text, not {kind_of(value)}{cure}")
    if "\x00" in value:
        raise refuse("holds a NUL character, which no program can be given")
    if not _encodable(value):
        raise refuse("holds half of a surrogate pair, which cannot be written as UTF-8")
    return value


def as_line(value: Any) -> str:
    """Text of one line and at least one character, as names, paths and directive values have to be.

    Refuses what `as_text` refuses, blank text, control characters and more than 131,000 bytes of UTF-8, about
    the most that Linux takes as one argument.
    """
    text = as_text(value)
    if not text.strip():
        raise refuse("must not be empty")
    if _CONTROL.search(text):
        raise refuse(f"{shown(text)} holds a line break or control character; write it on one line")
    if (size := len(text.encode())) > _LONGEST_LINE:
        raise refuse(f"has {size} bytes, and no program can be given more than {_LONGEST_LINE} in an argument")
    return text


def as_argument(value: Any) -> str:
    """Return a line that a program takes for what it is: it does not begin like an option. Refuses what
    `as_line` refuses.
    """
    text = as_line(value)
    if text.startswith("-"):
        raise refuse(f"{shown(text)} starts with a dash and would be read as an option; write ./ before a path")
    return text


def as_script(value: Any) -> str:
    """Return shell text, of any length. Refuses what `as_text` does, and DOS line breaks, which sbatch refuses."""
    text = as_text(value)
    if "\r\n" in text:
        raise refuse("holds DOS line breaks (\\r\\n), and sbatch takes no script with one; end its lines with \\n")
    return text


def as_int(value: Any) -> int:
    """Return a whole number; digits in quotes are accepted, booleans and fractions are not."""
    if isinstance(value, Scalar):
        value = value.value
    if isinstance(value, str) and _INTEGER.match(value):
        return int(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise refuse(f"must be a whole number, not {shown(value)}")
    return value


def as_number(value: Any) -> float:
    """Return a finite number that is not negative, its unit being its field's. Refuses all else, booleans too."""
    if isinstance(value, Scalar):
        value = value.value
    if isinstance(value, str) and _NUMBER.match(value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise refuse(f"must be a number, not {shown(value)}")
    if not 0 <= value < float("inf"):
        raise refuse(f"must be a number of at least 0, not {value}")
    return float(value)


def as_flag(value: Any) -> bool:
    """Return true or false, in any of YAML 1.1's spellings. Refuses all else, 0 and 1 too."""
    if isinstance(value, Scalar):
        value = value.value
    if isinstance(value, bool):
        return value
    word = str(value).lower() if isinstance(value, (str, int)) else ""
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    raise refuse(f"must be true or false, not {shown(value)}")


def as_duration(value: Any) -> str:
    """Return a Slurm duration longer than zero, as text. A bare number is refused, as its unit is anyone's guess."""
    if isinstance(value, int) and not isinstance(value, bool):
        raise refuse(f"{value} is a bare number; put it in quotes to mean minutes, or write {DURATION_FORMS}")
    text = as_text(value)
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise refuse(str(error)) from None
    if seconds <= 0:
        raise refuse(f"{text!r} is no time at all; it must be longer than zero (leave the field out for no limit)")
    return text


def as_variable_name(value: Any) -> str:
    """Return the name of an environment variable, as a shell can assign it. Refuses all else, without repeating what
    may be the variable's value.
    """
    text = as_text(value)
    if not VARIABLE_NAME.match(text):
        there = name_to_show(text)
        there = f"what is there ({NOT_SHOWN})" if there is None else repr(there)
        cure = "write the name alone, as in HF_TOKEN: its value is read when a job is submitted"
        raise refuse(f"{there} is not the name of {A_VARIABLE}; {cure}")
    return text


def as_plain(value: Any) -> Any:
    """Return any YAML, with numbers as numbers. Refuses what no program could be given."""
    return checked_plain(plain_value(value))


def checked_plain(value: Any) -> Any:
    """Refuse NUL characters and lone surrogates anywhere inside a plain value."""
    if isinstance(value, str):
        return as_text(value)
    if isinstance(value, dict):
        for key, item in value.items():
            as_line(key)
            checked_plain(item)
    elif isinstance(value, list):
        for item in value:
            checked_plain(item)
    elif value is not None and not isinstance(value, (bool, int, float)):
        raise refuse(f"holds {kind_of(value)}; use text, numbers, true/false, null, lists and mappings")
    return value


def kind_of(value: Any) -> str:
    """Name the kind of a value in YAML's words."""
    if isinstance(value, Scalar):
        value = value.value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"the boolean {str(value).lower()}"
    for types, word in (((int, float), "a number"), (str, "text"), (dict, "a mapping"), ((list, tuple), "a list")):
        if isinstance(value, types):
            return word
    return f"a {type(value).__name__}"


def shown(value: Any) -> str:
    """Return a value short enough for a message."""
    if isinstance(value, Scalar):
        value = value.text
    if value is None or isinstance(value, (dict, list, tuple)):
        return kind_of(value)
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    if len(text) > _LONGEST_SHOWN:
        text = unsaid(text)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:100]}… ({len(text)} characters)"


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _at_least(least: int, most: int | None = None) -> BeforeValidator:
    def check(value: Any) -> int:
        number = as_int(value)
        if number < least or (most is not None and number > most):
            raise refuse(f"must be {f'at least {least}' if most is None else f'from {least} to {most}'}, not {number}")
        return number

    return BeforeValidator(check)


Text = Annotated[str, BeforeValidator(as_text)]
Line = Annotated[str, BeforeValidator(as_line)]
Argument = Annotated[str, BeforeValidator(as_argument)]
Script = Annotated[str, BeforeValidator(as_script)]
Flag = Annotated[bool, BeforeValidator(as_flag)]
Number = Annotated[float, BeforeValidator(as_number)]
Duration = Annotated[str, BeforeValidator(as_duration)]
VariableName = Annotated[str, BeforeValidator(as_variable_name)]
Plain = Annotated[Any, BeforeValidator(as_plain)]
Count = Annotated[int, _at_least(1)]
CountOrZero = Annotated[int, _at_least(0)]
Port = Annotated[int, _at_least(1, 65535)]
