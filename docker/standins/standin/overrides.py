"""Hydra's override grammar, as far as an evaluation's command line uses it: `+a.b=VALUE`, `++a=VALUE`, `a=VALUE`."""

from __future__ import annotations

import os
import re
from typing import Any


class OverrideError(Exception):
    """A word that Hydra would not parse either."""


def parse_overrides(words: list[str]) -> dict[str, Any]:
    """All overrides as one nested mapping. Raises OverrideError with the word and the place."""
    result: dict[str, Any] = {}
    for word in words:
        path, equals, text = word.partition("=")
        match = re.fullmatch(r"(\+{0,2})([A-Za-z_][\w@/-]*(?:\.[\w@/-]+)*)", path)
        if not match or not equals:
            raise OverrideError(f"Error when parsing override {word!r}: wanted +name=value")
        *parents, last = match.group(2).split(".")
        place = result
        for parent in parents:
            place = place.setdefault(parent, {})
            if not isinstance(place, dict):
                raise OverrideError(f"{word!r}: {parent!r} has a value already and cannot hold others")
        if last in place and not match.group(1).startswith("++"):
            raise OverrideError(f"{word!r}: {match.group(2)!r} is given twice")
        place[last] = _Reader(text).whole()
    return result


def resolve(value: Any) -> Any:
    """`${oc.env:NAME}` and `${oc.env:NAME,default}` with the environment's value, and `\\${` as `${`, as OmegaConf does
    when a value is read. Raises OverrideError for a name that is not set, and for interpolations of other kinds."""
    if isinstance(value, dict):
        return {name: resolve(item) for name, item in value.items()}
    if isinstance(value, list):
        return [resolve(item) for item in value]
    return re.sub(r"(\\*)\$\{([^{}]*)\}?", _interpolation, value) if isinstance(value, str) else value


def _interpolation(found: re.Match[str]) -> str:
    slashes = found[1][: len(found[1]) // 2]
    if len(found[1]) % 2:
        return slashes + found[0][len(found[1]) :]
    name, comma, default = found[2].partition(",")
    kind, _, name = name.partition(":")
    answer = os.environ.get(name.strip(), default.strip() if comma else None)
    if kind.strip() != "oc.env" or answer is None:
        raise OverrideError(f"Error: cannot resolve {found[0]!r}")
    return slashes + answer


class _Reader:
    """Reads one value. Quoted text, lists, mappings, then what is left: null, booleans, numbers, bare text."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def whole(self) -> Any:
        value = self.value("")
        self.blanks()
        if self.at != len(self.text):
            raise self.error("end of the value")
        return value

    def error(self, wanted: str) -> OverrideError:
        return OverrideError(f"Error when parsing override value {self.text!r}: wanted {wanted} at column {self.at}")

    def blanks(self) -> None:
        while self.text[self.at : self.at + 1] in (" ", "\t"):
            self.at += 1

    def value(self, ends: str) -> Any:
        self.blanks()
        sign = self.text[self.at : self.at + 1]
        if sign and sign in "'\"":
            return self.quoted(sign)
        if sign == "[":
            return self.items("]", lambda: self.value(",]"))
        if sign == "{":
            return dict(self.items("}", self.pair))
        return _plain(self.bare(ends))

    def quoted(self, quote: str) -> str:
        begin = self.at = self.at + 1
        while self.at < len(self.text) and self.text[self.at] != quote:
            self.at += 2 if self.text[self.at] == "\\" and self.text[self.at + 1 : self.at + 2] in ("\\", quote) else 1
        if self.at >= len(self.text):
            raise self.error(f"a closing {quote}")
        self.at += 1
        # Backslashes count in front of the quote only: \\' is one of them and the end, \\n is two and an n.
        raw = self.text[begin : self.at - 1]
        raw = re.sub(r"(\\+)" + quote, lambda m: "\\" * (len(m.group(1)) // 2) + quote, raw)
        return re.sub(r"(\\+)$", lambda m: "\\" * (len(m.group(1)) // 2), raw)

    def items(self, close: str, one: Any) -> list[Any]:
        self.at += 1
        found: list[Any] = []
        self.blanks()
        while self.text[self.at : self.at + 1] != close:
            found.append(one())
            self.blanks()
            if self.text[self.at : self.at + 1] == ",":
                self.at += 1
                self.blanks()
            elif self.text[self.at : self.at + 1] != close:
                raise self.error(f"',' or {close!r}")
        self.at += 1
        return found

    def pair(self) -> tuple[Any, Any]:
        self.blanks()
        if self.text[self.at : self.at + 1] in ("'", '"'):
            raise self.error("a key without quotes, which Hydra does not take")
        key = self.value(":")
        self.blanks()
        if self.text[self.at : self.at + 1] != ":":
            raise self.error("':'")
        self.at += 1
        return key, self.value(",}")

    def bare(self, ends: str) -> str:
        found, depth = "", 0
        while self.at < len(self.text):
            sign = self.text[self.at]
            if sign == "\\":
                self.at += 1
                sign = self.text[self.at : self.at + 1]
            elif depth == 0 and sign in ends:
                break
            elif self.text.startswith("${", self.at) or (depth and sign == "{"):
                depth += 1
            elif depth and sign == "}":
                depth -= 1
            elif sign in "'\"[]{}=" or (sign == "," and not depth):
                raise self.error("quotes around a value with signs")
            found += sign
            self.at += 1
        return found.strip()


def _plain(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if text.lower() == "null" or text == "":
        return None if text else ""
    if re.fullmatch(r"[+-]?\d(_?\d)*", text):
        return int(text)
    try:
        return (
            float(text) if re.fullmatch(r"[+-]?(\d[\d_]*\.?[\d_]*|\.\d+)([eE][+-]?\d+)?|[+-]?(inf|nan)", text) else text
        )
    except ValueError:
        return text
