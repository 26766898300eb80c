"""YAML values as Hydra overrides that Hydra's grammar reads back as exactly those values.

``{split: benchmark, limit: {n: 5}}`` becomes ``+split=benchmark`` and ``+limit.n=5``. Strings are left bare only where
that is certain to mean the same; everything else is quoted the way Hydra (1.1 to 1.3) unquotes. An interpolation
(``${...}``) inside a string is not escaped: the driver's own Hydra resolves it, which is how a config defers a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from airflow_gym_provider.config import Problem, SubmitConfigError
from airflow_gym_provider.jobscript.quoting import MAX_ARGUMENTS_BYTES, MAX_WORD_BYTES, check_text

_BARE = re.compile(r"[A-Za-z_/][A-Za-z0-9_.:/-]*")
_RESERVED = {"true", "false", "null", "nan", "inf"}
# The lexer's KEY_SPECIAL and DOT_PATH, with a config group's slashes and @package as Hydra takes them.
_WORD = r"[A-Za-z_$][A-Za-z0-9_$-]*"
_STEP = rf"(?:{_WORD}|0|[1-9][0-9]*)"
_KEY = re.compile(rf"(?:{_WORD}|{_STEP}(?:\.{_STEP})+|{_WORD}(?:/{_WORD})+)(?:@{_STEP}(?:\.{_STEP})*)?")
_MAP_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_BACKSLASHES_BEFORE_QUOTE = re.compile(r'(?<!\\)(\\+)(?="|\Z)')


def override_tokens(values: Mapping[str, object], place: str) -> list[str]:
    """The ``+path=value`` arguments for a mapping, in its own order; nested mappings become dotted paths.

    `place` is the mapping's dotted place in the config and is used in errors only. Raises SubmitConfigError naming
    every key or value that Hydra's grammar cannot express, and every token longer than one argument may be.
    """
    problems: list[Problem] = []
    tokens: list[str] = []
    given: dict[str, object] = {}
    for path, value in _flatten(values):
        try:
            _check_new(path, value, given)
            tokens.append(_token(path, value))
        except ValueError as error:
            problems.append(Problem(f"{place}.{path}", str(error)))
    size = sum(len(token.encode(errors="replace")) for token in tokens)
    if size > MAX_ARGUMENTS_BYTES:
        told = f"the arguments have {size} bytes together, and a program gets {MAX_ARGUMENTS_BYTES} at most; use a file"
        problems.append(Problem(place, told))
    if problems:
        raise SubmitConfigError(problems)
    return tokens


def hydra_value(value: object) -> str:
    """`value` in Hydra's value grammar. Raises ValueError for what the grammar has no spelling for."""
    if value is None or isinstance(value, bool | int | float):
        return _scalar(value)
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{_map_key(key)}:{hydra_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, Sequence):
        return "[" + ",".join(hydra_value(item) for item in value) + "]"
    raise ValueError(f"a value of type {type(value).__name__} has no form as a Hydra override; write it as a string")


def _flatten(values: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for key, value in values.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            yield from _flatten(value, f"{path}.")
        else:
            yield path, value


def _check_new(path: str, value: object, given: dict[str, object]) -> None:
    """Raise ValueError for a path that is there already, or would be inside of a plain value: Hydra refuses both."""
    for other, held in given.items():
        outer, inner, plain = (path, other, value) if len(path) < len(other) else (other, path, held)
        if path == other or (inner.startswith(f"{outer}.") and not isinstance(plain, Mapping)):
            raise ValueError(f"contradicts {other}, which is given as well: a dotted key means a nested one; keep one")
    given[path] = value


def _token(path: str, value: object) -> str:
    if not _KEY.fullmatch(path):
        raise ValueError(
            f"the key {path!r} cannot be a Hydra override; use letters, digits, '_', '-' and dots, no digit first"
        )
    token = f"+{path}={hydra_value(value)}"
    check_text(token)
    size = len(token.encode())
    if size > MAX_WORD_BYTES:
        raise ValueError(
            f"the value makes an argument of {size} bytes and Linux passes at most {MAX_WORD_BYTES}; use a file"
        )
    return token


def _string(text: str) -> str:
    if _BARE.fullmatch(text) and text.lower() not in _RESERVED:
        return text
    # Double quotes, since the shell word around the token is best in single ones. Inside them Hydra takes a
    # backslash as itself, except in a run of backslashes right before a quote.
    doubled = _BACKSLASHES_BEFORE_QUOTE.sub(lambda run: run[1] * 2, text)
    return '"' + doubled.replace('"', '\\"') + '"'


def _scalar(value: bool | int | float | None) -> str:
    if value is None:
        return "null"
    # Python's repr of a float is Hydra's spelling too: 1e-05, nan, inf, -inf.
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _map_key(key: object) -> str:
    text = str(key)
    if isinstance(key, str) and not (_MAP_KEY.fullmatch(text) and text.lower() not in _RESERVED):
        raise ValueError(
            f"the key {text!r} of a mapping inside a list cannot be written as a Hydra override; "
            "use letters, digits, '_' and '-', not starting with a digit"
        )
    return hydra_value(key)
