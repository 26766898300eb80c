"""What a gate compares: one metric of one benchmark in both runs, before and after its test."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_gym_provider.results.gate_terms import MetricRule, MetricVerdict, Outcome, Side
from airflow_gym_provider.results.paired import PairedTest
from airflow_gym_provider.results.sentences import left_out, repeats
from airflow_gym_provider.results.tasks import Comparison, TaskRewards

__all__ = ["MEAN_REWARD", "Case", "Open"]

MEAN_REWARD = "mean/reward"


@dataclass(frozen=True)
class Case:
    """One metric of one benchmark in both runs."""

    benchmark: str
    metric: str
    rule: MetricRule
    candidate: Side
    baseline: Side

    @property
    def name(self) -> str:
        """How sentences call it."""
        return f"{self.benchmark} {self.metric}"

    @property
    def lacks(self) -> str:
        """What keeps either run from passing: the missing part may be what fell."""
        lacks = []
        for side in (self.candidate, self.baseline):
            if side.unfit:
                lacks.append(f"{side.label} {side.unfit}")
            elif side.incomplete:
                lacks.append(f"{side.label} is not complete: {side.incomplete}")
            elif why := side.lacks(self.metric):
                lacks.append(why)
        return "; ".join(lacks)

    def verdict(self, outcome: Outcome, sentence: str) -> MetricVerdict:
        """This metric's verdict, without numbers."""
        return MetricVerdict(self.benchmark, self.metric, outcome, sentence)

    def unknown(self, why: str) -> MetricVerdict:
        """INCONCLUSIVE, for this reason."""
        return self.verdict(Outcome.INCONCLUSIVE, f"{self.name}: inconclusive, since {why}")

    def rewards(self, side: Side) -> TaskRewards | None:
        """The rewards per task whose mean the metric is."""
        if side.rewards is None or not len(side.rewards):
            return None
        if self.metric == MEAN_REWARD:
            return side.rewards
        return side.rewards.of_agent(self.metric.removesuffix(f"/{MEAN_REWARD}"))


@dataclass(frozen=True)
class Open:
    """A paired test that waits for the correction of its p value."""

    case: Case
    test: PairedTest
    old: float
    new: float
    found: Comparison

    @property
    def tolerated(self) -> float:
        """The drop that is tolerated, in the metric's unit."""
        return self.case.rule.tolerated(self.old)

    @property
    def sign(self) -> int:
        """What a difference is multiplied with, so that below 0 is worse."""
        return 1 if self.case.rule.higher_is_better else -1

    @property
    def notes(self) -> str:
        """What is not compared, or not alike, as the end of a sentence."""
        return left_out(self.found) + repeats(self.found)
