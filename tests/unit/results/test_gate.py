"""What the gate says, case by case."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy
import pytest
from scipy import stats

from airflow_gym_provider.results import Task, TaskRewards, paired
from airflow_gym_provider.results.gate import (
    GateReport,
    GateSettings,
    MetricRule,
    MetricVerdict,
    Outcome,
    Side,
    judge_gate,
    worst,
)

REWARD = {"*": {"mean/reward": MetricRule()}}


def tasks(rewards: Sequence[float | None], n: int = 4, prompt: str = "7", first: int = 0) -> TaskRewards:
    return TaskRewards.of(Task("solver", str(first + at), n, reward, prompt) for at, reward in enumerate(rewards))


def side(rewards: Sequence[float | None] | None = None, label: str = "the run", **more: object) -> Side:
    told = [reward for reward in rewards or () if reward is not None]
    metrics = {"mean/reward": sum(told) / len(told)} if told else {}
    table = None if rewards is None else tasks(rewards)
    return replace(Side(label, metrics, table), **more)  # type: ignore[arg-type]


def judge(
    candidate: Side,
    baseline: Side,
    rules: Mapping[str, Mapping[str, MetricRule]] = REWARD,
    **settings: object,
) -> MetricVerdict:
    report = judge_gate({"gpqa": candidate}, {"gpqa": baseline}, rules, GateSettings(**settings))  # type: ignore[arg-type]
    (verdict,) = report.verdicts
    assert report.outcome is verdict.outcome
    return verdict


GOOD = [1.0] * 300 + [0.0] * 100
WORSE = [0.0] * 12 + [1.0] * 288 + [0.0] * 100  # 3 points of 100


def test_three_points_over_400_tasks_are_found():
    verdict = judge(side(WORSE), side(GOOD, "run monday"))
    assert verdict.outcome is Outcome.REGRESSED
    assert verdict.sentence.startswith("gpqa mean/reward got worse from 0.75 to 0.72 (-0.03, 95 % interval -0.0475 to ")
    assert verdict.sentence.endswith(" over 400 tasks, against run monday")
    assert verdict.test is not None
    assert verdict.test.p < 0.001
    assert (verdict.test.n, verdict.baseline, verdict.candidate) == (400, 0.75, 0.72)


def test_the_same_again_passes_and_so_does_better():
    verdict = judge(side(GOOD), side(GOOD, "run monday"))
    assert (verdict.outcome, verdict.p) == (Outcome.PASS, 1.0)
    assert "shows no drop that could be told from chance: from 0.75 to 0.75 (+0" in verdict.sentence
    assert judge(side(GOOD), side(WORSE)).outcome is Outcome.PASS


def test_eight_tasks_are_inconclusive_however_large_the_drop():
    verdict = judge(side([0.0] * 8), side([1.0] * 8))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "8 tasks to compare are fewer than the 10 of min_pairs" in verdict.sentence
    assert judge(side([0.0] * 8), side([1.0] * 8), min_pairs=8).outcome is Outcome.REGRESSED


@pytest.mark.parametrize(
    ("rule", "outcome"),
    [
        (MetricRule(max_drop=0.02), Outcome.REGRESSED),
        (MetricRule(max_drop=0.2), Outcome.PASS),
        (MetricRule(max_drop_percent=50), Outcome.PASS),
        (MetricRule(max_drop_percent=1), Outcome.REGRESSED),
        (MetricRule(higher_is_better=False), Outcome.PASS),
    ],
)
def test_a_tolerated_drop(rule: MetricRule, outcome: Outcome):
    verdict = judge(side([0.0] * 40 + GOOD[40:]), side(GOOD), {"*": {"mean/reward": rule}})
    assert verdict.outcome is outcome, verdict.sentence
    if rule.max_drop:
        assert f"a drop of {rule.max_drop:g} is tolerated" in verdict.sentence


def test_lower_is_better():
    rules = {"*": {"mean/reward": MetricRule(higher_is_better=False)}}
    verdict = judge(side(GOOD), side(WORSE), rules)
    assert verdict.outcome is Outcome.REGRESSED
    assert verdict.test is not None
    assert 0 < verdict.test.low < verdict.test.mean < verdict.test.high
    numbers = judge(Side("a", {"x": 3}), Side("b", {"x": 2}), {"*": {"x": MetricRule(higher_is_better=False)}})
    assert numbers.outcome is Outcome.REGRESSED


def test_a_drop_that_has_to_be_ruled_out():
    noisy = [float(at % 2) for at in range(40)]
    other = [float(at % 3 == 0) for at in range(40)]
    assert judge(side(noisy), side(other)).outcome is Outcome.PASS
    verdict = judge(side(noisy), side(other), {"*": {"mean/reward": MetricRule(exclude_drop=0.05)}})
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "a drop of 0.05 cannot be ruled out" in verdict.sentence
    assert judge(side(GOOD), side(GOOD), {"*": {"mean/reward": MetricRule(exclude_drop=0.05)}}).outcome is Outcome.PASS


@pytest.mark.parametrize("incomplete", ["candidate", "baseline"])
def test_an_incomplete_run_never_passes_but_may_regress(incomplete: str):
    more = {"incomplete": "97 of 100 rollouts"}
    sides = {"candidate": side(GOOD, "this run"), "baseline": side(GOOD, "the baseline")}
    sides[incomplete] = replace(sides[incomplete], **more)
    verdict = judge(sides["candidate"], sides["baseline"])
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "is not complete: 97 of 100 rollouts" in verdict.sentence
    assert judge(side(WORSE, **more), side(GOOD)).outcome is Outcome.REGRESSED
    numbers = {"*": {"x": MetricRule()}}
    assert judge(Side("a", {"x": 1.0}, **more), Side("b", {"x": 1.0}), numbers).outcome is Outcome.INCONCLUSIVE
    assert judge(Side("a", {"x": 0.0}, **more), Side("b", {"x": 1.0}), numbers).outcome is Outcome.REGRESSED


@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("fixed", [True, False])
def test_a_metric_that_is_missing_or_no_number_never_passes(value: float | None, fixed: bool):
    broken = {} if value is None else {"x": value}
    for new, old in ((broken, {"x": 1.0}), ({"x": 1.0}, broken), (broken, broken)):
        verdict = judge(Side("a", new), Side("b", old, fixed=fixed), {"*": {"x": MetricRule()}})
        assert verdict.outcome is Outcome.INCONCLUSIVE
        assert "x is no number in" in verdict.sentence


def test_a_metric_that_is_not_there_is_told_with_those_that_are():
    mine = Side("this run", {"pass@2/accuracy": 30.0, "mean/reward": 0.3, **{f"x{i}": 1.0 for i in range(9)}})
    verdict = judge(mine, mine, {"*": {"pass@1/accuracy": MetricRule()}})
    told = "pass@1/accuracy is no metric of this run, which has mean/reward, pass@2/accuracy, x0, "
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert told in verdict.sentence
    assert "and 5 more" in verdict.sentence
    first = judge_gate({"b": mine}, {}, {"*": {"pass@1/accuracy": MetricRule()}}, GateSettings())
    assert told in first.verdicts[0].sentence


def test_rewards_without_the_metric_never_pass():
    assert judge(side(GOOD, metrics={}), side(GOOD)).outcome is Outcome.INCONCLUSIVE
    assert judge(side(GOOD), side(GOOD, metrics={"mean/reward": math.nan})).outcome is Outcome.INCONCLUSIVE
    assert judge(side(WORSE, metrics={}), side(GOOD)).outcome is Outcome.REGRESSED


def test_a_changed_set_of_tasks_is_compared_where_it_is_the_same():
    candidate = replace(
        side(GOOD, metrics={"mean/reward": 300 / 410}),
        rewards=TaskRewards({**tasks(GOOD[:350]).tasks, **tasks([0.0] * 60, first=900).tasks}),
    )
    verdict = judge(candidate, side(GOOD))
    assert verdict.outcome is Outcome.PASS
    assert verdict.sentence.endswith("; 110 tasks are left out (50 only in the baseline, 60 only in this run)")
    assert (verdict.left_out, verdict.test and verdict.test.n) == (110, 350)


def test_hardly_any_task_in_common_is_inconclusive():
    candidate = replace(side(GOOD), rewards=tasks(GOOD, first=300))
    verdict = judge(candidate, side(GOOD))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "only 100 of 400 tasks are the same" in verdict.sentence
    assert judge(candidate, side(GOOD), min_overlap=0.1).outcome is not Outcome.INCONCLUSIVE


def test_other_questions_under_the_same_numbers_are_other_tasks():
    candidate = replace(side(GOOD), rewards=tasks(GOOD, prompt="8"))
    verdict = judge(candidate, side(GOOD))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "400 with another prompt" in verdict.sentence
    assert judge(candidate, side(GOOD), same_prompts=False).outcome is Outcome.PASS
    unknown = replace(side(GOOD), rewards=tasks(GOOD, prompt="0"))
    assert judge(unknown, side(GOOD)).outcome is Outcome.PASS


def test_another_number_of_repeats_is_told():
    candidate = replace(side(GOOD), rewards=tasks(GOOD, n=8))
    assert (
        "each task was tried 4 times in the baseline and 8 times in this run" in judge(candidate, side(GOOD)).sentence
    )


def test_tasks_without_a_reward_are_told():
    rewards: list[float | None] = [None] * 5 + GOOD[5:]
    assert "5 without a reward" in judge(side(rewards), side(GOOD)).sentence


def test_rewards_on_one_side_only_are_inconclusive_and_on_neither_numbers():
    gone = replace(side(GOOD, "the baseline"), rewards=None, no_rewards="/r.jsonl does not exist")
    verdict = judge(side(GOOD), gone)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "since the baseline has no rewards per task: /r.jsonl does not exist" in verdict.sentence
    assert judge(gone, side(GOOD)).outcome is Outcome.INCONCLUSIVE
    assert judge(gone, gone).outcome is Outcome.INCONCLUSIVE
    assert judge(side(GOOD), gone, paired=False).outcome is Outcome.PASS
    never = replace(side(GOOD), rewards=None)
    verdict = judge(never, never)
    assert verdict.outcome is Outcome.PASS
    assert "two numbers without a test" in verdict.sentence


def test_fixed_numbers_and_their_tolerance():
    fixed = Side("the fixed numbers", {"mean/reward": 0.76}, fixed=True)
    assert judge(side(GOOD), fixed).outcome is Outcome.REGRESSED
    verdict = judge(side(GOOD), fixed, {"*": {"mean/reward": MetricRule(max_drop=0.01)}})
    assert verdict.outcome is Outcome.PASS
    assert "from 0.76 to 0.75 (-0.01)" in verdict.sentence


def test_agents_are_judged_each():
    def two(first: Sequence[float], second: Sequence[float]) -> Side:
        rows = [
            Task(agent, str(at), 1, r, "0") for agent, all in (("a", first), ("b", second)) for at, r in enumerate(all)
        ]
        metrics = {"a/mean/reward": sum(first) / len(first), "b/mean/reward": sum(second) / len(second)}
        return Side("it", metrics, TaskRewards.of(rows))

    report = judge_gate({"x": two(GOOD, WORSE)}, {"x": two(GOOD, GOOD)}, REWARD)
    assert [(v.metric, v.outcome.value) for v in report.verdicts] == [
        ("a/mean/reward", "pass"),
        ("b/mean/reward", "regressed"),
    ]


def test_a_benchmark_without_a_result_is_not_left_out():
    report = judge_gate({"a": side(GOOD)}, {"a": side(GOOD), "b": side(GOOD)}, REWARD)
    assert {name: report.of(name).value for name in report.benchmarks} == {"a": "pass", "b": "inconclusive"}
    assert report.outcome is Outcome.INCONCLUSIVE
    assert report.sentence == "b has no result in this run"
    named = judge_gate({"a": side(GOOD)}, {"a": side(GOOD)}, {**REWARD, "c": {"x": MetricRule()}})
    assert named.of("c") is Outcome.INCONCLUSIVE


def test_nothing_at_all_is_no_pass():
    assert judge_gate({}, {}, REWARD).outcome is Outcome.INCONCLUSIVE
    assert "nothing to compare" in judge_gate({}, {}, REWARD).sentence
    assert judge_gate({"a": side(GOOD)}, {"a": side(GOOD)}, {"b": {}, "*": {}}).outcome is Outcome.INCONCLUSIVE


def test_no_baseline_is_an_outcome_of_its_own():
    report = judge_gate({"a": side(GOOD)}, {}, REWARD)
    assert report.outcome is Outcome.NO_BASELINE
    assert report.sentence == "a: there is no earlier green run to compare with"


@pytest.mark.parametrize(
    "candidate",
    [side(GOOD, incomplete="97 of 100 rollouts"), side(GOOD, metrics={}), Side("it", {"mean/reward": math.nan})],
)
def test_what_is_not_whole_does_not_become_a_baseline(candidate: Side):
    report = judge_gate({"a": candidate}, {}, REWARD)
    assert report.outcome is Outcome.INCONCLUSIVE
    assert "it cannot become one: " in report.sentence


def test_the_worst_counts():
    assert worst([Outcome.PASS, Outcome.REGRESSED, Outcome.INCONCLUSIVE]) is Outcome.REGRESSED
    assert worst([Outcome.PASS, Outcome.NO_BASELINE]) is Outcome.NO_BASELINE
    assert worst([]) is Outcome.INCONCLUSIVE


def test_many_benchmarks_are_corrected_for():
    """Eight tasks of 400 turned bad: 1 in 256 by chance, which is news for one benchmark and none among twenty."""
    slightly = [0.0] * 8 + GOOD[8:]
    alone = judge_gate({"b0": side(slightly)}, {"b0": side(GOOD)}, REWARD)
    assert alone.outcome is Outcome.REGRESSED
    candidates = {f"b{at}": side(slightly if at == 0 else GOOD) for at in range(20)}
    baselines = {name: side(GOOD) for name in candidates}
    many = judge_gate(candidates, baselines, REWARD)
    assert many.outcome is Outcome.PASS
    assert "after Holm over 20 comparisons" in many.benchmarks["b0"][0].sentence
    assert judge_gate(candidates, baselines, REWARD, GateSettings(correction="none")).outcome is Outcome.REGRESSED
    found = judge_gate({**candidates, "b1": side(WORSE)}, baselines, REWARD)
    assert (found.of("b1"), found.of("b0")) == (Outcome.REGRESSED, Outcome.PASS)


def test_values_are_small_plain_json_and_the_same_every_time():
    first, second = (judge_gate({"a": side(WORSE)}, {"a": side(GOOD)}, REWARD) for _ in range(2))
    values = first.verdicts[0].values()
    assert values == second.verdicts[0].values()
    assert len(json.dumps(values, allow_nan=False)) < 700
    assert (values["verdict"], values["pairs"], values["test"]) == ("regressed", 400, "paired")
    assert values["difference"] == pytest.approx(-0.03)
    assert isinstance(first, GateReport)


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (lambda: MetricRule(max_drop=-0.1), "max_drop is -0.1"),
        (lambda: MetricRule(max_drop_percent=math.nan), "max_drop_percent is nan"),
        (lambda: GateSettings(min_pairs=1), "min_pairs is 1"),
        (lambda: MetricRule(max_drop=True), "max_drop is True"),
        (lambda: MetricRule(max_drop="0.1"), "max_drop is '0.1'"),  # type: ignore[arg-type]
        (lambda: MetricRule(higher_is_better="false"), "higher_is_better is 'false'"),  # type: ignore[arg-type]
        (lambda: GateSettings(min_pairs=math.nan), "min_pairs is nan"),  # type: ignore[arg-type]
        (lambda: GateSettings(min_pairs="10"), "min_pairs is '10'"),  # type: ignore[arg-type]
        (lambda: GateSettings(min_overlap=math.nan), "min_overlap is nan"),
        (lambda: GateSettings(alpha="0.05"), "alpha is '0.05'"),  # type: ignore[arg-type]
        (lambda: GateSettings(alpha=math.nan), "alpha is nan"),
        (lambda: GateSettings(alpha=0.7), "alpha is 0.7"),
        (lambda: GateSettings(min_overlap=2), "min_overlap is 2"),
        (lambda: GateSettings(correction="bonferroni"), "correction is 'bonferroni'"),  # type: ignore[arg-type]
    ],
)
def test_settings_that_make_no_gate_are_refused(made: object, told: str):
    with pytest.raises(ValueError, match=told):
        made()  # type: ignore[operator]


@pytest.mark.parametrize("value", ["0.5", True, None, [], {}, 10**400])
@pytest.mark.parametrize("fixed", [True, False])
def test_what_stands_in_the_place_of_a_number_never_passes(value: object, fixed: bool):
    broken: dict[str, float] = {"mean/reward": value}  # type: ignore[dict-item]
    for new, old in ((broken, {"mean/reward": 1.0}), ({"mean/reward": 1.0}, broken)):
        assert judge(Side("a", new), Side("b", old, fixed=fixed)).outcome is Outcome.INCONCLUSIVE
    assert judge(side(GOOD, metrics=broken), side(GOOD)).outcome is Outcome.INCONCLUSIVE
    assert judge_gate({"a": Side("a", broken)}, {}, REWARD).outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize("reward", [1e308, -1e308, 1e200, math.inf, math.nan])
@pytest.mark.parametrize("tasks", [20, 5000])
def test_rewards_beyond_all_measure_never_pass(reward: float, tasks: int):
    wild, tame = side([reward, 1.0] * (tasks // 2)), side([0.5] * tasks)
    wild = replace(wild, metrics={"mean/reward": 1.0})
    for candidate, baseline in ((wild, tame), (tame, wild)):
        verdict = judge(candidate, baseline)
        assert verdict.outcome is Outcome.INCONCLUSIVE
        json.dumps(verdict.values(), allow_nan=False)


@pytest.mark.parametrize("also", [[], [0.42] * 20, [0.9] * 20])
def test_a_drop_that_is_as_large_as_the_tolerated_one_is_tolerated(also: list[float]):
    """0.72 - 0.75 + 0.03 is a little below 0 in floating point: no drop, however many tasks say so."""
    old = [0.75] * 20 + [round(value + 0.03, 2) for value in also]
    verdict = judge(side([0.72] * 20 + also), side(old), {"*": {"mean/reward": MetricRule(max_drop=0.03)}})
    assert verdict.outcome is Outcome.PASS
    assert verdict.p == 1.0
    assert judge(side([0.71] * 20), side([0.75] * 20), {"*": {"mean/reward": MetricRule(max_drop=0.03)}}).p < 0.001


def test_a_comparison_that_proves_nothing_is_no_pass():
    verdict = judge(side(GOOD), side(GOOD, "run one", unfit="is the very run that is judged"))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "since run one is the very run that is judged" in verdict.sentence


FEW = [1.0] * 13 + [0.0] * 7
"""Twenty tasks, seven of which cannot fall."""


def many(
    candidate: Side, baseline: Side, among: int, others: int = 20, **settings: object
) -> tuple[MetricVerdict, GateReport]:
    """The verdict over one benchmark `among` so many, the others of which are as before."""
    same = {f"b{at}": side([1.0] * others) for at in range(1, among)}
    report = judge_gate({"b0": candidate, **same}, {"b0": baseline, **same}, REWARD, GateSettings(**settings))  # type: ignore[arg-type]
    return report.benchmarks["b0"][0], report


@pytest.mark.parametrize("correction", ["holm", "benjamini-hochberg", "none"])
@pytest.mark.parametrize("among", [1, 2, 12, 101])
@pytest.mark.parametrize("size", [2, 6, 7, 10, 11, 13, 14, 20])
def test_the_loss_of_everything_is_never_a_pass(size: int, among: int, correction: str):
    settings = {"min_pairs": 2, "correction": correction}
    lost, _ = many(side([0.0] * size), side([1.0] * size), among, **settings)
    assert lost.outcome in (Outcome.REGRESSED, Outcome.INCONCLUSIVE)
    assert (lost.outcome is Outcome.REGRESSED) == (lost.p < 0.01)
    same, _ = many(side([1.0] * size), side([1.0] * size), among, **settings)
    assert same.outcome is (Outcome.PASS if lost.outcome is Outcome.REGRESSED else Outcome.INCONCLUSIVE)
    half = [float(at % 2) for at in range(size)]
    assert many(side([0.0] * size), side(half), among, **settings)[0].outcome is not Outcome.PASS
    every = {f"b{at}": (side([0.0] * size), side([1.0] * size)) for at in range(among)}
    mine, theirs = ({name: pair[at] for name, pair in every.items()} for at in (0, 1))
    assert judge_gate(mine, theirs, REWARD, GateSettings(**settings)).outcome is not Outcome.PASS  # type: ignore[arg-type]


def test_what_could_not_have_been_told_says_why_and_what_helps():
    verdict, report = many(side([0.0] * 10), side([1.0] * 10), 12)
    assert verdict.outcome is report.outcome is Outcome.INCONCLUSIVE
    told = (
        "no drop of 10 tasks among 12 comparisons can be told from chance (were all of them lost, p would be 0.01172, "
        "and alpha is 0.01): compare more tasks, or fewer metrics in one gate, or give it a larger alpha"
    )
    assert told in verdict.sentence
    assert many(side([0.0] * 10), side([1.0] * 10), 12, alpha=0.05)[0].outcome is Outcome.REGRESSED
    assert many(side([0.0] * 10), side([1.0] * 10), 12, correction="none")[0].outcome is Outcome.REGRESSED


def test_a_baseline_with_little_to_lose_hides_no_collapse():
    """Were all thirteen lost, p would be 0.5^13 * 100; what chance takes away of them is no news, and passes."""
    verdict, _ = many(side([0.0] * 20), side(FEW), 100)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "the baseline had too little to lose (were all of it lost, p would be 0.01221" in verdict.sentence
    assert many(side([1.0] + [0.0] * 19), side(FEW), 100)[0].outcome is Outcome.INCONCLUSIVE
    assert many(side([0.0] * 3 + FEW[3:]), side(FEW), 100)[0].outcome is Outcome.PASS
    assert many(side([0.0] * 20), side(FEW), 10)[0].outcome is Outcome.REGRESSED
    assert judge(side([0.0] * 20), side([0.0] * 20)).outcome is Outcome.PASS
    worse = {"*": {"mean/reward": MetricRule(higher_is_better=False)}}
    high = [0.0] * 6 + [1.0] * 14
    assert judge(side([1.0] * 20), side(high), worse).outcome is Outcome.INCONCLUSIVE
    assert judge(side(high), side([1.0] * 20), worse).outcome is Outcome.PASS


@pytest.mark.parametrize("fall", [0.9, 0.05])
def test_two_hundred_benchmarks_hide_no_drop_of_one(fall: float, monkeypatch: pytest.MonkeyPatch):
    """500 tasks each, right or wrong in one, graded in the other: no resampling could tell p below 1 in 10,000."""
    monkeypatch.setattr(paired, "_bootstrap", lambda *_: (0.0, 0.0))
    random = numpy.random.default_rng(1)
    right = (random.random(500) < 0.9).astype(float)
    fallen = numpy.where(random.random(500) < fall, 0.0, right)
    graded = right * random.uniform(0.5, 1, 500)
    lower = numpy.clip(graded - fall * random.random(500), 0, 1)
    for new, old in ((fallen, right), (lower, graded)):
        verdict, _ = many(side(list(new)), side(list(old)), 200, others=500)
        assert verdict.outcome is Outcome.REGRESSED
        assert "after Holm over 200 comparisons" in verdict.sentence
        assert verdict.p == pytest.approx(200 * verdict.test.p)
    assert many(side(list(right)), side(list(right)), 200, others=500)[1].outcome is Outcome.PASS


@pytest.mark.parametrize("new", [0.1, 0.5, 0.89])
def test_a_fall_of_the_number_that_its_rewards_do_not_show_is_no_pass(new: float):
    nine = [0.9] * 40
    verdict = judge(side(nine, "this run", metrics={"mean/reward": new}), side(nine))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    told = f"since mean/reward fell from 0.9 to {new:g} and the rewards of its tasks do not show it"
    assert told in verdict.sentence
    assert judge(side(nine), side(nine, metrics={"mean/reward": 2.0})).outcome is Outcome.INCONCLUSIVE
    assert judge(side([0.1] * 40, metrics={"mean/reward": 0.9}), side(nine)).outcome is Outcome.REGRESSED


@pytest.mark.parametrize("written", [0.667, 2 / 3, 0.75, 0.3])
def test_a_number_that_is_written_otherwise_and_did_not_fall_passes(written: float):
    """Over tasks or rollouts, without samples that gym leaves out, with failures counted as 0: as in the run before."""
    rows = [Task("solver", str(at), 3 if at < 10 else 2, float(at < 20), "7") for at in range(30)]
    mine = Side("it", {"mean/reward": written}, TaskRewards.of(rows))
    assert judge(mine, mine).outcome is Outcome.PASS
    assert judge(mine, replace(mine, metrics={"mean/reward": written - 0.2})).outcome is Outcome.PASS
    assert judge(mine, replace(mine, metrics={"mean/reward": written + 0.0005})).outcome is Outcome.PASS
    assert judge(mine, replace(mine, metrics={"mean/reward": written + 0.2})).outcome is Outcome.INCONCLUSIVE


def test_a_fall_in_tasks_that_cannot_be_compared_is_no_pass():
    old = side([1.0] * 100)
    others = {name: replace(task, prompt="8", reward=0.0) for name, task in list(old.rewards.items())[50:]}
    new = Side("it", {"mean/reward": 0.5}, TaskRewards({**old.rewards.tasks, **others}))
    verdict = judge(new, old)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "since mean/reward fell from 1 to 0.5 in tasks that cannot be compared" in verdict.sentence
    assert judge(new, old, {"*": {"mean/reward": MetricRule(max_drop=0.5)}}).outcome is Outcome.PASS
    assert judge(old, new).outcome is Outcome.PASS
    fewer = Side("it", {"mean/reward": 1.0}, tasks([1.0] * 50))
    assert judge(fewer, old).outcome is Outcome.PASS
    lower = {"*": {"mean/reward": MetricRule(higher_is_better=False)}}
    assert judge(old, new, lower).outcome is Outcome.INCONCLUSIVE


def test_noise_of_tasks_that_cannot_be_compared_passes(monkeypatch: pytest.MonkeyPatch):
    """A tenth of the tasks is asked anew each night: two nights of a hundred may be stopped, as by chance."""
    monkeypatch.setattr(paired, "RESAMPLES", 199)
    random = numpy.random.default_rng(11)
    passed = 0
    for _ in range(100):
        ability = random.beta(0.6, 0.4, 400)
        nights = []
        for prompt in ("7", "8"):
            asked = numpy.concatenate([ability, random.beta(0.6, 0.4, 40)])
            rewards = random.binomial(4, asked) / 4
            rows = [Task("a", str(at), 4, float(r), prompt if at >= 400 else "7") for at, r in enumerate(rewards)]
            nights.append(Side("it", {"mean/reward": float(rewards.mean())}, TaskRewards.of(rows)))
        passed += judge(nights[1], nights[0]).outcome is Outcome.PASS
    assert passed >= 98


NIGHTS = 1000
ABILITIES = {"mostly easy or hard": (0.6, 0.4), "middling": (2.0, 2.0)}


def rewards(random: numpy.random.Generator, ability: numpy.ndarray, repeats: int, *, graded: bool) -> numpy.ndarray:
    """Mean rewards of one run a row: right or wrong, or shares of what was asked for."""
    if not graded:
        return random.binomial(repeats, ability) / repeats
    sure = numpy.clip(ability, 0.01, 0.99) * 4
    return random.beta(sure, 4 - sure, (repeats, *ability.shape)).mean(axis=0)


def p_by_normal(differences: numpy.ndarray) -> numpy.ndarray:
    """P of each row without resampling: over 400 tasks the mean of sign flips is normal. It is held to that below."""
    return stats.norm.cdf(differences.sum(axis=-1) / numpy.sqrt((differences**2).sum(axis=-1)))


@pytest.mark.parametrize("graded", [False, True])
@pytest.mark.parametrize("repeats", [1, 4, 8])
@pytest.mark.parametrize("kind", ABILITIES)
def test_two_runs_of_one_model_pass_95_times_in_100_whatever_the_seed(kind: str, repeats: int, graded: bool):
    """A thousand pairs of nights: 10 false alarms are to be expected, and more than 22 of them one time in 3000.

    So a hundred nights bring more than five less than once in 1800 hundreds (binomial, at 0.01).
    """
    random = numpy.random.default_rng(7)
    ability = random.beta(*ABILITIES[kind], (NIGHTS, 400))
    old, new = (rewards(random, ability, repeats, graded=graded) for _ in range(2))
    assert (p_by_normal(new - old) < GateSettings().alpha).sum() <= 22
    assert stats.binom.sf(5, 100, GateSettings().alpha) < 1 / 1800


def test_the_short_cut_is_the_test():
    random = numpy.random.default_rng(3)
    for repeats in (1, 4, 8):
        ability = random.beta(0.6, 0.4, 400)
        differences = (random.binomial(repeats, ability) - random.binomial(repeats, ability) - 0.05) / repeats
        assert p_by_normal(differences) == pytest.approx(paired.paired_test(list(differences)).p, abs=0.02)


def test_a_hundred_nights_of_one_model_pass_95_times(monkeypatch: pytest.MonkeyPatch):
    """The whole way, with resampling: four rollouts of each of 400 tasks, night after night."""
    monkeypatch.setattr(paired, "RESAMPLES", 499)
    monkeypatch.setattr(paired, "_bootstrap", lambda *_: (0.0, 0.0))
    random = numpy.random.default_rng(7)
    ability = random.beta(0.6, 0.4, 400)
    nights = [side(list(random.binomial(4, ability) / 4)) for _ in range(101)]
    passed = sum(judge(new, old).outcome is Outcome.PASS for old, new in itertools.pairwise(nights))
    assert passed >= 95


@pytest.mark.parametrize("seed", range(5))
def test_a_planted_drop_of_three_points_is_found_among_others_that_go_up_and_down(seed: int):
    """12 of 400 tasks lost; of graded rewards all others move a little as well."""
    random = numpy.random.default_rng(seed)
    old = numpy.array(GOOD)
    lost = random.choice(300, 12, replace=False)
    new = old + random.normal(0, 0.05, 400)
    new[lost] = 0.0
    assert judge(side(list(new)), side(list(old))).outcome is Outcome.REGRESSED
