"""What gates said of benchmarks, from the XCom `gym_verdict`, in the words of the pages. Pure.

A verdict speaks of the result that its gate judged: of the one in that directory, where a run has several of one
benchmark. What is not understood is left out.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_gym_provider.results.numbers import is_number
from airflow_gym_provider.ui.runs import EvalRun

_WORDS = ("regressed", "inconclusive", "no_baseline", "pass")
"""The worst first: several verdicts over one benchmark show the worst."""


@dataclass(frozen=True)
class GateWord:
    """A verdict (see `results.gate`), the sentence that says why, and the baseline's value of each metric.

    `job_dir`: where the result lies that was judged; "" when the verdict does not say.
    """

    verdict: str
    reason: str = ""
    baselines: Mapping[str, float] = field(default_factory=dict)
    job_dir: str = ""

    @property
    def light(self) -> str:
        """green, red or grey."""
        return {"pass": "green", "regressed": "red"}.get(self.verdict, "grey")


GateWords = dict[tuple[str, str, str], list[GateWord]]
"""(DAG id, run id, benchmark) to what the gates of that run said of it."""


def gate_words(verdicts: Iterable[tuple[str, str, str, Any]]) -> GateWords:
    """The verdicts, which are (DAG id, run id, task id, XCom), by what they speak of."""
    found: GateWords = {}
    for dag_id, run_id, _, value in verdicts:
        for benchmark, word in _words(value):
            found.setdefault((dag_id, run_id, benchmark), []).append(word)
    return found


def word_of(words: GateWords, run: EvalRun) -> GateWord | None:
    """The verdict over this result, the worst of several; None when no gate has judged it."""
    said = words.get((run.row.dag_id, run.row.run_id, run.benchmark), [])
    here = posixpath.normpath(run.job_dir) if run.job_dir else ""
    mine = [word for word in said if not here or not word.job_dir or posixpath.normpath(word.job_dir) == here]
    return min(mine, key=_rank, default=None)


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
    """One verdict; the worst where a benchmark has one for each metric."""
    if not isinstance(part, Mapping):
        return _plain_word(part)
    metrics = part.get("metrics")
    inner: Mapping[str, Any] = metrics if isinstance(metrics, Mapping) else part
    words = [word for one in inner.values() if (word := _plain_word(one))]
    word = _plain_word(part) or min(words, key=_rank, default=None)
    if word is None:
        return None
    candidate = part.get("candidate")
    place = candidate.get("job_dir") if isinstance(candidate, Mapping) else None
    return replace(word, baselines=_baselines(inner), job_dir=place if isinstance(place, str) else "")


def _plain_word(part: Any) -> GateWord | None:
    values = part if isinstance(part, Mapping) else {"verdict": part}
    verdict = str(values.get("verdict", values.get("outcome", ""))).lower()
    return GateWord(verdict, _reason(values)) if verdict in _WORDS else None


def _baselines(metrics: Mapping[str, Any]) -> dict[str, float]:
    values = {name: one.get("baseline") for name, one in metrics.items() if isinstance(one, Mapping)}
    return {name: float(value) for name, value in values.items() if is_number(value)}


def _reason(part: Mapping[str, Any]) -> str:
    """Its sentence, or those of its metrics."""
    for name in ("sentence", "reason", "text"):
        if isinstance(part.get(name), str):
            return str(part[name])
    metrics = part.get("metrics")
    told = (
        [_reason(one) for one in metrics.values() if isinstance(one, Mapping)] if isinstance(metrics, Mapping) else []
    )
    return " ".join(sentence for sentence in told if sentence)


def _rank(word: GateWord) -> int:
    return _WORDS.index(word.verdict)
