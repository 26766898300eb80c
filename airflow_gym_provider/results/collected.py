"""Metrics gathered by name from a file that others wrote: bounded, and no name stands for two numbers."""

from __future__ import annotations

import json
from typing import Any

from airflow_gym_provider.results.numbers import is_number

__all__ = ["LONGEST", "Collected", "parse_json"]

LONGEST = 500
"""Signs of a metric's name, the agent's or the outer objects' before it among them. What is longer is left out."""
MOST = 5000
"""Metrics that are taken: they are kept in Airflow's database, run by run."""
_NOTES = 20
_SHOWN = 80


class _Twice:
    """What stands in the place of a value whose name its object has twice."""


def parse_json(data: bytes) -> Any:
    """The content of a JSON file. A name that an object has twice has no value that is a number, text or object.

    Raises ValueError, and RecursionError for what is nested too deep.
    """
    return json.loads(data, object_pairs_hook=_object)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            found[name] = _Twice()
        seen.add(name)
    return found


class Collected:
    """Metrics as they come, and remarks on those that are left out: at most MOST and some twenty of them."""

    def __init__(self) -> None:
        self.metrics: dict[str, float] = {}
        self._twice: set[str] = set()
        self._notes: list[str] = []
        self._left_out = 0
        self._too_many = 0

    def add(self, prefix: str, name: str, value: object, *, told: bool = True) -> None:
        """One value by its name; `told` False: what is no number is left out without a word."""
        if self.too_long(prefix, name):
            return
        full = f"{prefix}{name}"
        if isinstance(value, _Twice) or full in self._twice or full in self.metrics:
            self._drop(full)
        elif not is_number(value):
            if told:
                self.note(f"{_short(full)} is {_shown(value)}, not a number,")
        elif len(self.metrics) >= MOST:
            self._too_many += 1
        else:
            self.metrics[full] = float(value)

    def too_long(self, prefix: str, name: str) -> bool:
        """Whether the two together are longer than a name may be, which is remarked: no such name is ever made."""
        size = len(prefix) + len(name)
        if size > LONGEST:
            self.note(f"{_short(prefix + name[: _SHOWN + 1])} is a name of {size} signs, which is left out,")
        return size > LONGEST

    def note(self, text: str) -> None:
        """One remark more."""
        if len(self._notes) < _NOTES:
            self._notes.append(text)
        else:
            self._left_out += 1

    def _drop(self, name: str) -> None:
        if name not in self._twice:
            self._twice.add(name)
            self.note(f"{_short(name)} is there twice, and neither is taken,")
        self.metrics.pop(name, None)

    @property
    def notes(self) -> list[str]:
        """The remarks, each to be read before "in" and the file's path."""
        found = list(self._notes)
        if self._left_out:
            found.append(f"and {self._left_out:,} more")
        if self._too_many:
            found.append(f"{self._too_many:,} metrics more than the {MOST:,} that are taken are")
        return found


def _short(name: str) -> str:
    return name if len(name) <= _SHOWN else f"{name[: _SHOWN - 1]}…"


def _shown(value: object) -> str:
    if isinstance(value, dict | list):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    return json.dumps(value)[:_SHOWN]
