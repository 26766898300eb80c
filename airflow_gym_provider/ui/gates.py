"""What gates said of benchmarks, from the XCom `gym_verdict`, in the words of the pages. Pure.

A verdict that names no benchmark counts for all of its DAG run. What is not understood is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_WORDS = ("regressed", "inconclusive", "pass")
"""The worst first: several gates over one benchmark show the worst."""


@dataclass(frozen=True)
class GateWord:
    """A verdict: pass, regressed or inconclusive, the sentence that says why, and the baseline's value if known."""

    verdict: str
    reason: str = ""
    baseline: float | None = None

    @property
    def light(self) -> str:
        """green, red or grey."""
        return {"pass": "green", "regressed": "red"}.get(self.verdict, "grey")


def gate_words(verdicts: Iterable[tuple[str, str, str, Any]]) -> dict[tuple[str, str, str], GateWord]:
    """(DAG id, run id, benchmark) to what the gates of that run said of it."""
    found: dict[tuple[str, str, str], GateWord] = {}
    for dag_id, run_id, _, value in verdicts:
        for benchmark, word in _words(value):
            place = (dag_id, run_id, benchmark)
            if place not in found or _rank(word) < _rank(found[place]):
                found[place] = word
    return found


def _words(value: Any) -> Iterable[tuple[str, GateWord]]:
    if not isinstance(value, Mapping):
        return
    benchmarks = value.get("benchmarks", value.get("comparisons"))
    if isinstance(benchmarks, Mapping):
        parts = [(str(name), part) for name, part in benchmarks.items()]
    elif isinstance(benchmarks, list):
        parts = [(str(part.get("benchmark", "")), part) for part in benchmarks if isinstance(part, Mapping)]
    else:
        parts = [(str(value.get("benchmark", "")), value)]
    for name, part in parts:
        word = _word(part)
        if name and word is not None:
            yield name, word


def _word(part: Any) -> GateWord | None:
    if isinstance(part, str):
        part = {"verdict": part}
    if not isinstance(part, Mapping):
        return None
    verdict = str(part.get("verdict", part.get("outcome", ""))).lower()
    verdict = {"passed": "pass", "regression": "regressed"}.get(verdict, verdict)
    if verdict not in _WORDS:
        return None
    baseline = part.get("baseline")
    number = float(baseline) if isinstance(baseline, int | float) and not isinstance(baseline, bool) else None
    return GateWord(verdict, str(part.get("reason", part.get("text", ""))), number)


def _rank(word: GateWord) -> int:
    return _WORDS.index(word.verdict)
