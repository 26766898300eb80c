"""What the gate is asked and what it answers: rules, runs, verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from airflow_gym_provider.results.numbers import is_number
from airflow_gym_provider.results.paired import Correction, PairedTest
from airflow_gym_provider.results.tasks import TaskRewards

__all__ = ["GateReport", "GateSettings", "MetricRule", "MetricVerdict", "Outcome", "Side", "worst"]


class Outcome(StrEnum):
    """What came of a comparison."""

    PASS = "pass"  # noqa: S105
    NO_BASELINE = "no_baseline"
    INCONCLUSIVE = "inconclusive"
    REGRESSED = "regressed"


_ORDER = list(Outcome)
_NAMED = 6
"""Metrics that a sentence names when the wanted one is not among them."""


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """The one that counts for all: REGRESSED, else INCONCLUSIVE, else NO_BASELINE, else PASS. Of none: INCONCLUSIVE."""
    return max(outcomes, key=_ORDER.index, default=Outcome.INCONCLUSIVE)


@dataclass(frozen=True)
class MetricRule:
    """How far one metric may fall, in the metric's own unit (mean/reward is 0 to 1, accuracies are 0 to 100).

    `max_drop` and `max_drop_percent` (of the baseline) are tolerated; the larger counts where both are given.
    `exclude_drop`: a pass needs the confidence interval to rule out a drop this large; otherwise inconclusive.
    """

    max_drop: float = 0.0
    max_drop_percent: float = 0.0
    higher_is_better: bool = True
    exclude_drop: float | None = None

    def __post_init__(self) -> None:
        """Refuse what is no tolerance."""
        for name in ("max_drop", "max_drop_percent", "exclude_drop"):
            value = getattr(self, name)
            if not (name == "exclude_drop" and value is None) and not (is_number(value) and value >= 0):
                raise ValueError(f"{name} is {value!r}; write a number from 0 on")
        if not isinstance(self.higher_is_better, bool):
            # "false" would be as good as True
            raise ValueError(f"higher_is_better is {self.higher_is_better!r}; write True or False")

    def tolerated(self, baseline: float) -> float:
        """The tolerated drop in the metric's unit."""
        return max(self.max_drop, abs(baseline) * self.max_drop_percent / 100)


@dataclass(frozen=True)
class GateSettings:
    """What holds for all metrics.

    `alpha`: the chance of a false alarm, over all metrics that are tested together: with 0.05 one hundred nights of one
    model bring more than five false alarms about as often as not, with 0.01 hardly ever. `min_pairs`: fewer tasks than
    this are inconclusive; so is an overlap of less than `min_overlap` of the larger run's tasks. `paired` False
    compares numbers only. `same_prompts`: see `compare_tasks`.
    """

    min_pairs: int = 10
    min_overlap: float = 0.5
    alpha: float = 0.01
    correction: Correction = "holm"
    paired: bool = True
    same_prompts: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what makes no gate."""
        if not isinstance(self.min_pairs, int) or self.min_pairs < 2:
            raise ValueError(f"min_pairs is {self.min_pairs!r}; two tasks are the least that can be tested")
        if not (is_number(self.alpha) and 0 < self.alpha < 0.5):
            raise ValueError(f"alpha is {self.alpha!r}; write a chance between 0 and 0.5, such as 0.01")
        if not (is_number(self.min_overlap) and 0 <= self.min_overlap <= 1):
            raise ValueError(f"min_overlap is {self.min_overlap!r}; write a share between 0 and 1")
        if self.correction not in ("holm", "benjamini-hochberg", "none"):
            raise ValueError(f"correction is {self.correction!r}; write holm, benjamini-hochberg or none")


@dataclass(frozen=True)
class Side:
    """One run of one benchmark. `label` is how sentences call it; `incomplete` says in words what it lacks.

    `rewards` None: there are none per task, for the reason in `no_rewards` if it is known. `fixed`: numbers that
    somebody wrote down, which have no tasks. `unfit`, in words ("is …"): why a comparison with it proves nothing.
    """

    label: str
    metrics: Mapping[str, float] = field(default_factory=dict)
    rewards: TaskRewards | None = None
    incomplete: str = ""
    no_rewards: str = ""
    fixed: bool = False
    unfit: str = ""

    def value(self, metric: str) -> float:
        """The metric; NaN when it is missing or no number, whatever stands in its place."""
        found = self.metrics.get(metric)
        return float(found) if is_number(found) else math.nan

    def lacks(self, metric: str) -> str:
        """Why `value` is NaN, in words, with the names that could have been meant; empty when it is a number."""
        if not math.isnan(self.value(metric)):
            return ""
        if metric in self.metrics or not self.metrics:
            return f"{metric} is no number in {self.label}"
        names = sorted(self.metrics, key=lambda name: (name != "mean/reward", name))
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        return f"{metric} is no metric of {self.label}, which has {', '.join(names[:_NAMED])}{more}"


@dataclass(frozen=True)
class MetricVerdict:
    """One metric of one benchmark. Differences are candidate minus baseline, whichever way is better.

    `baseline` and `candidate` are means over the compared tasks when `test` is there, the runs' own metrics otherwise.
    """

    benchmark: str
    metric: str
    outcome: Outcome
    sentence: str
    baseline: float | None = None
    candidate: float | None = None
    test: PairedTest | None = None
    p: float | None = None
    left_out: int = 0

    def values(self) -> dict[str, Any]:
        """For XCom and pages: some hundred bytes."""
        values: dict[str, Any] = {"verdict": self.outcome.value, "sentence": self.sentence}
        values |= {
            "baseline": self.baseline,
            "candidate": self.candidate,
            "test": "numbers" if not self.test else "paired",
        }
        if self.test is not None:
            test = self.test
            values |= {"pairs": test.n, "difference": test.mean, "low": test.low, "high": test.high}
            values["p"] = self.p
        elif self.baseline is not None and self.candidate is not None:
            values["difference"] = self.candidate - self.baseline
        return {name: _short(value) for name, value in values.items()}


@dataclass(frozen=True)
class GateReport:
    """All verdicts. `outcome` is the worst of them; `sentence` is for people, the worst first."""

    verdicts: tuple[MetricVerdict, ...]

    @property
    def outcome(self) -> Outcome:
        """What counts for all."""
        return worst(verdict.outcome for verdict in self.verdicts)

    @property
    def sentence(self) -> str:
        """What was found, in words; those of the worst outcome only."""
        told = [verdict.sentence for verdict in self.verdicts if verdict.outcome is self.outcome]
        return ". ".join(told) if told else "There is nothing to compare: no benchmark came with a result"

    def of(self, benchmark: str) -> Outcome:
        """What counts for one benchmark."""
        return worst(verdict.outcome for verdict in self.verdicts if verdict.benchmark == benchmark)

    @property
    def benchmarks(self) -> dict[str, list[MetricVerdict]]:
        """Verdicts by benchmark, in order."""
        found: dict[str, list[MetricVerdict]] = {}
        for verdict in self.verdicts:
            found.setdefault(verdict.benchmark, []).append(verdict)
        return found


def _short(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) and math.isfinite(value) else value
