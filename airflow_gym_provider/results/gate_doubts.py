"""Why a test that has found no drop is no pass all the same: it could not have found one, or not that one. Pure.

A pass by tasks says that no drop could be told from chance. That is worth something only where a drop could have been
told, among as many comparisons, and where the tasks that were compared speak for the number that was written.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from airflow_gym_provider.results.gate_cases import Open
from airflow_gym_provider.results.gate_terms import GateSettings
from airflow_gym_provider.results.paired import chance_of, corrected, least_chance
from airflow_gym_provider.results.sentences import number

__all__ = ["doubt"]

_NEARLY_ALL = 0.9
_ROUNDED = 0.00051
"""A number that was written with three digits behind the point is as good as the mean itself."""


def doubt(tests: Sequence[Open], at: int, settings: GateSettings) -> str:
    """Why the test at this index may not pass, to be read after "since"; "" where nothing speaks against it."""
    beside = _Beside(at, [item.test.p for item in tests], settings)
    told = (check(tests[at], beside) for check in (_too_few_tasks, _too_little_to_lose, _unspoken))
    return next(filter(None, told), "")


@dataclass(frozen=True)
class _Beside:
    """What a test is corrected for: the p values of all, at index `at` its own."""

    at: int
    chances: Sequence[float]
    settings: GateSettings

    def shown(self, chance: float) -> float | None:
        """This p in the place of the test's own, corrected, where it shows no drop; None where it shows one."""
        if chance * len(self.chances) < self.settings.alpha:  # no correction makes more of it
            return None
        others = [*self.chances[: self.at], *self.chances[self.at + 1 :]]
        p = corrected([chance, *others], self.settings.correction)[0]
        return None if p < self.settings.alpha else p

    def cure(self, p: float) -> str:
        """What to do where the smallest p is this one."""
        return (
            f"p would be {number(p)}, and alpha is {self.settings.alpha:g}): compare more tasks, or fewer metrics in "
            "one gate, or give it a larger alpha"
        )


def _too_few_tasks(item: Open, beside: _Beside) -> str:
    """Whether even the loss of every task would have passed, whatever the baseline was."""
    p = beside.shown(least_chance(item.test.n))
    if p is None:
        return ""
    count = len(beside.chances)
    among = f" among {count} comparisons" if count > 1 else ""
    return f"no drop of {item.test.n} tasks{among} can be told from chance (were all of them lost, {beside.cure(p)}"


def _too_little_to_lose(item: Open, beside: _Beside) -> str:
    """Whether the run has lost nearly all that the baseline had, and even all of it would have passed.

    A task that the baseline has not solved cannot fall, so a run that had little to lose has less tasks than it seems.
    What chance takes away of little is mostly less than that, and passes.
    """
    new = [item.sign * pair.candidate for pair in item.found.pairs]
    old = [item.sign * pair.baseline for pair in item.found.pairs]
    # as bad as rewards get: 0 (or 1 where lower is better), unless there were worse ones
    bottom = min(0.0 if item.sign > 0 else -1.0, *new, *old)
    fell = sum(old) - sum(new)
    if fell <= item.tolerated * len(old) or fell < _NEARLY_ALL * (sum(old) - bottom * len(old)):
        return ""
    lost = [bottom - value + item.tolerated for value in old]
    p = beside.shown(chance_of(lost))
    return "" if p is None else f"the baseline had too little to lose (were all of it lost, {beside.cure(p)}"


def _unspoken(item: Open, beside: _Beside) -> str:
    """Whether the written numbers fell by more than the tasks that were compared can tell.

    A written number need not be the mean of all rewards (gym can leave samples out, or count failures as 0), so only
    how it moved is looked at.
    """
    case = item.case
    fell = item.sign * (case.baseline.value(case.metric) - case.candidate.value(case.metric))
    if math.isnan(fell) or fell <= item.tolerated + _explained(item, beside.settings.alpha) + _ROUNDED:
        return ""
    old, new = (number(side.value(case.metric)) for side in (case.baseline, case.candidate))
    where = "in tasks that cannot be compared" if item.found.left_out else "and the rewards of its tasks do not show it"
    return f"{case.metric} fell from {old} to {new} {where}"


def _explained(item: Open, alpha: float) -> float:
    """As far as the compared tasks may have fallen, and as those that are left out may differ by chance at `alpha`."""
    from scipy import stats

    compared, variance = len(item.found.pairs), 0.0
    for side in (item.case.candidate, item.case.baseline):
        rewards = item.case.rewards(side)
        told = [task.reward for task in (rewards or {}).values() if task.reward is not None]
        if len(told) > compared:
            mean = sum(told) / len(told)
            spread = sum((reward - mean) ** 2 for reward in told) / len(told)
            variance += (len(told) - compared) / len(told) * spread / len(told)
    test = item.test
    fallen = max(0.0, *((-test.low, -test.mean) if item.sign > 0 else (test.high, test.mean)))
    return fallen + float(stats.norm.isf(alpha)) * math.sqrt(variance)
