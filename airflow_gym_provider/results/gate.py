"""Whether a candidate may pass: each metric of each benchmark against a baseline, with a sentence that says why. Pure.

Four outcomes. PASS: no drop beyond the tolerated one that could be told from chance. REGRESSED: there is one.
INCONCLUSIVE: it cannot be said, for a reason that is named. NO_BASELINE: there is nothing to compare with. What is
missing, not a number or not complete never makes a PASS.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from airflow_gym_provider.results.gate_cases import MEAN_REWARD, Case, Open
from airflow_gym_provider.results.gate_doubts import doubt
from airflow_gym_provider.results.gate_terms import (
    GateReport,
    GateSettings,
    MetricRule,
    MetricVerdict,
    Outcome,
    Side,
    worst,
)
from airflow_gym_provider.results.paired import PairedTest, corrected, paired_test
from airflow_gym_provider.results.sentences import left_out, number, percent, repeats
from airflow_gym_provider.results.tasks import Comparison, Pair, compare_tasks

__all__ = ["GateReport", "GateSettings", "MetricRule", "MetricVerdict", "Outcome", "Side", "judge_gate", "worst"]

_ROUNDING = 1e-12
_LARGEST = 1e100


def judge_gate(
    candidates: Mapping[str, Side],
    baselines: Mapping[str, Side],
    rules: Mapping[str, Mapping[str, MetricRule]],
    settings: GateSettings | None = None,
) -> GateReport:
    """Judge every metric of `rules` (benchmark to metric to rule; "*" is for benchmarks that are not named).

    A metric that is not there by its name stands for that of every agent ("mean/reward" for "solver/mean/reward").
    A benchmark of the rules or of the baselines without a candidate is inconclusive, not left out.
    """
    settings = settings or GateSettings()
    named = [name for name in rules if name != "*"]
    found: list[MetricVerdict | Open] = []
    for benchmark in dict.fromkeys([*candidates, *baselines, *named]):
        candidate, baseline = candidates.get(benchmark), baselines.get(benchmark)
        wanted = rules.get(benchmark, rules.get("*", {}))
        if candidate is None:
            told = f"{benchmark} has no result in this run"
            found.append(MetricVerdict(benchmark, "*", Outcome.INCONCLUSIVE, told))
        elif not wanted:
            told = f"{benchmark}: no metric is asked for"
            found.append(MetricVerdict(benchmark, "*", Outcome.INCONCLUSIVE, told))
        elif baseline is None:
            found.append(_first(benchmark, candidate, wanted))
        else:
            found += [
                _measure(Case(benchmark, metric, rule, candidate, baseline), settings)
                for name, rule in wanted.items()
                for metric in _meant(name, {**baseline.metrics, **candidate.metrics})
            ]
    return GateReport(tuple(_closed(found, settings)))


def _first(benchmark: str, candidate: Side, wanted: Mapping[str, MetricRule]) -> MetricVerdict:
    """Nothing to compare with: but what has no numbers, or not all of them, shall be no baseline either."""
    metrics = [metric for name in wanted for metric in _meant(name, candidate.metrics)]
    lacks = candidate.incomplete or next(filter(None, map(candidate.lacks, metrics)), "")
    told = f"{benchmark}: there is no earlier green run to compare with"
    if lacks:
        return MetricVerdict(benchmark, "*", Outcome.INCONCLUSIVE, f"{told}, and it cannot become one: {lacks}")
    return MetricVerdict(benchmark, "*", Outcome.NO_BASELINE, told)


def _meant(name: str, metrics: Mapping[str, float]) -> Sequence[str]:
    if name in metrics:
        return [name]
    return [metric for metric in metrics if metric.endswith(f"/{name}")] or [name]


def _measure(case: Case, settings: GateSettings) -> MetricVerdict | Open:
    is_reward = case.metric == MEAN_REWARD or case.metric.endswith(f"/{MEAN_REWARD}")
    if not is_reward or case.baseline.fixed or not settings.paired:
        return _by_numbers(case)
    mine, theirs = case.rewards(case.candidate), case.rewards(case.baseline)
    if mine is not None and theirs is not None:
        pairs = compare_tasks(theirs, mine, same_prompts=settings.same_prompts)
        return _by_tasks(case, pairs, max(len(mine), len(theirs)), settings)
    if mine is None and theirs is None and not case.candidate.no_rewards and not case.baseline.no_rewards:
        return _by_numbers(case)
    lacking = case.candidate if mine is None else case.baseline
    why = f": {lacking.no_rewards}" if lacking.no_rewards else ""
    return case.unknown(f"{lacking.label} has no rewards per task{why}")


def _by_numbers(case: Case) -> MetricVerdict:
    """Two numbers, without a test: whether the drop is more than the tolerated one."""
    new, old = case.candidate.value(case.metric), case.baseline.value(case.metric)
    if math.isnan(new) or math.isnan(old):
        return case.unknown(case.lacks)
    tolerated = case.rule.tolerated(old)
    drop = (old - new) if case.rule.higher_is_better else (new - old)
    moved = f"from {number(old)} to {number(new)} ({number(new - old, sign=True)})"
    against = f"against {case.baseline.label}, two numbers without a test; a drop of {number(tolerated)} is tolerated"
    # what only rounding took away is no drop
    if drop > tolerated + _ROUNDING * max(abs(old), abs(new)):
        verdict = case.verdict(Outcome.REGRESSED, f"{case.name} got worse {moved}, {against}")
    elif case.lacks:
        verdict = case.verdict(
            Outcome.INCONCLUSIVE, f"{case.name}: inconclusive, since {case.lacks}; {moved}, {against}"
        )
    else:
        verdict = case.verdict(Outcome.PASS, f"{case.name} did not get worse: {moved}, {against}")
    return replace(verdict, baseline=old, candidate=new)


def _by_tasks(case: Case, found: Comparison, larger: int, settings: GateSettings) -> MetricVerdict | Open:
    size = len(found.pairs)
    notes = left_out(found) + repeats(found)
    few = ""
    if size < settings.min_pairs:
        few = f"{size} tasks to compare are fewer than the {settings.min_pairs} of min_pairs"
    elif size < settings.min_overlap * larger:
        few = f"only {size} of {larger} tasks are the same in {case.candidate.label} and {case.baseline.label}"
    if few:
        return replace(case.unknown(f"{few}{notes}"), left_out=found.left_out)
    old = sum(pair.baseline for pair in found.pairs) / size
    new = sum(pair.candidate for pair in found.pairs) / size
    sign, tolerated = 1 if case.rule.higher_is_better else -1, case.rule.tolerated(old)
    better = [_unrounded(sign * pair.difference, tolerated, pair) for pair in found.pairs]
    # their squares are summed, too
    if not all(abs(value) < _LARGEST for pair in found.pairs for value in (pair.baseline, pair.candidate)):
        return replace(case.unknown(f"there are rewards beyond all measure{notes}"), left_out=found.left_out)
    test = paired_test(better, tolerated, seed=settings.seed)
    if sign < 0:
        test = replace(test, mean=-test.mean, low=-test.high, high=-test.low)
    return Open(case, test, old, new, found)


def _unrounded(better: float, tolerated: float, pair: Pair) -> float:
    """The difference; exactly the tolerated drop where only rounding tells the two apart."""
    scale = max(abs(pair.baseline), abs(pair.candidate))
    return -tolerated if abs(better + tolerated) <= _ROUNDING * scale else better


def _closed(found: Sequence[MetricVerdict | Open], settings: GateSettings) -> list[MetricVerdict]:
    """Verdicts, once all p values are there to be corrected together."""
    waiting = [item for item in found if isinstance(item, Open)]
    adjusted = corrected([item.test.p for item in waiting], settings.correction)
    method = (
        "" if settings.correction == "none" or len(waiting) < 2 else settings.correction.replace("-", " and ").title()
    )
    after = f" after {method} over {len(waiting)} comparisons" if method else ""
    closed = []
    for at, (item, p) in enumerate(zip(waiting, adjusted, strict=True)):
        doubted = "" if p < settings.alpha else doubt(waiting, at, settings)
        closed.append(_close(item, p, after, doubted, settings))
    verdicts = iter(closed)
    return [next(verdicts) if isinstance(item, Open) else item for item in found]


def _close(item: Open, p: float, after: str, doubted: str, settings: GateSettings) -> MetricVerdict:
    case, test, rule = item.case, item.test, item.case.rule
    interval = f"{percent(test.confidence)} interval {number(test.low, sign=True)} to {number(test.high, sign=True)}"
    change = f"{number(test.mean, sign=True)}, {interval}, p = {number(p)}{after}"
    moved = (
        f"from {number(item.old)} to {number(item.new)} ({change}) over {test.n} tasks, against {case.baseline.label}"
    )
    tolerance = f"; a drop of {number(item.tolerated)} is tolerated" if item.tolerated else ""
    if p < settings.alpha:
        outcome, told = Outcome.REGRESSED, f"got worse {moved}{tolerance}"
    elif why := case.lacks or doubted:
        outcome, told = Outcome.INCONCLUSIVE, f"is inconclusive, since {why}; {moved}{tolerance}"
    elif rule.exclude_drop is not None and _reaches(test, rule):
        cannot = f"a drop of {number(rule.exclude_drop)} cannot be ruled out"
        outcome, told = Outcome.INCONCLUSIVE, f"is inconclusive, since {cannot}: {moved}{tolerance}"
    else:
        outcome, told = Outcome.PASS, f"shows no drop that could be told from chance: {moved}{tolerance}"
    verdict = case.verdict(outcome, f"{case.name} {told}{item.notes}")
    return replace(verdict, baseline=item.old, candidate=item.new, test=test, p=p, left_out=item.found.left_out)


def _reaches(test: PairedTest, rule: MetricRule) -> bool:
    """Whether the interval still holds a drop as large as is to be ruled out."""
    return (-test.low if rule.higher_is_better else test.high) >= (rule.exclude_drop or 0.0)
