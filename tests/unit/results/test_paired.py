"""The statistics keep what they promise, over populations that are known. Seeded: a failure is no accident."""

from __future__ import annotations

import itertools
import math

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from airflow_gym_provider.results import paired
from airflow_gym_provider.results.paired import chance_of, corrected, least_chance, paired_test

TASKS = 400
RUNS = 200


@pytest.fixture(autouse=True)
def fewer_resamples(monkeypatch: pytest.MonkeyPatch):
    """199 instead of 9999: what is tested are rates, over a thousand tests."""
    monkeypatch.setattr(paired, "RESAMPLES", 199)


def two_runs(random: numpy.random.Generator, tasks: int, repeats: int, drop: float) -> numpy.ndarray:
    """Differences between two runs of one model (drop 0), or of one whose chance at every task fell."""
    ability = random.beta(0.6, 0.4, tasks)
    worse = numpy.clip(ability - drop, 0, 1)
    return random.binomial(repeats, worse) / repeats - random.binomial(repeats, ability) / repeats


def alarms(*, tasks: int = TASKS, repeats: int = 4, drop: float = 0.0, tolerated: float = 0.0) -> int:
    """How many of RUNS comparisons have a p below 0.05."""
    random = numpy.random.default_rng(20)
    return sum(paired_test(two_runs(random, tasks, repeats, drop), tolerated).p < 0.05 for _ in range(RUNS))


MOST = 19
"""Alarms among 200 with a chance of 0.05 each: 10, and three standard deviations."""


@pytest.fixture
def no_interval(monkeypatch: pytest.MonkeyPatch):
    """Only p is asked for."""
    monkeypatch.setattr(paired, "_bootstrap", lambda *_: (0.0, 0.0))


@pytest.mark.usefixtures("no_interval")
@pytest.mark.parametrize(("tasks", "repeats", "least"), [(TASKS, 4, 2), (30, 1, 0), (10, 1, 0)])
def test_two_runs_of_one_model_alarm_as_often_as_alpha_says(tasks: int, repeats: int, least: int):
    assert least <= alarms(tasks=tasks, repeats=repeats) <= MOST


@pytest.mark.usefixtures("no_interval")
def test_a_drop_of_three_points_is_mostly_found():
    """With four rollouts per task. What clipping at 0 leaves of the three points is some two and a half."""
    assert alarms(drop=0.03) > 0.6 * RUNS
    assert alarms(drop=0.06) > 0.98 * RUNS


@pytest.mark.usefixtures("no_interval")
def test_a_tolerated_drop_alarms_no_more_often_than_alpha():
    assert alarms(drop=0.03, tolerated=0.03) <= MOST


def test_many_tasks_alarm_as_often_as_alpha_says():
    assert 2 <= alarms(tasks=4000, repeats=1) <= MOST


def test_the_interval_holds_the_truth_95_times_in_100():
    random = numpy.random.default_rng(3)
    tests = [
        paired_test(random.choice([-1.0, 0.0, 0.0, 0.0, 1.0], TASKS, p=[0.15, 0.3, 0.3, 0.15, 0.1]))
        for _ in range(RUNS)
    ]
    held = sum(test.low <= -0.05 <= test.high for test in tests)
    assert 0.91 <= held / RUNS <= 0.985


def test_small_numbers_are_those_of_the_exact_test(monkeypatch: pytest.MonkeyPatch):
    """Every sign pattern of ten differences, counted by hand."""
    monkeypatch.undo()
    values = [-0.5, -0.25, 0.25, -1.0, 0.0, -0.75, 0.5, -0.125, -0.5, -0.25]
    signs = numpy.array(numpy.meshgrid(*[[-1, 1]] * 10)).reshape(10, -1)
    means = (signs * numpy.array(values)[:, None]).mean(axis=0)
    expected = float((means <= numpy.mean(values) + 1e-12).mean())
    assert paired_test(values).p == pytest.approx(expected)


def counted(values: numpy.ndarray) -> float:
    """Every sign pattern, by hand."""
    signs = numpy.array(numpy.meshgrid(*[[-1, 1]] * values.size)).reshape(values.size, -1)
    return float(((signs * values[:, None]).sum(axis=0) <= values.sum() + 1e-9).mean())


@given(st.lists(st.integers(-8, 8), min_size=2, max_size=10), st.sampled_from([1, 3, 4, 7, 100]), st.integers(0, 3))
def test_all_sign_patterns_are_counted(steps: list[int], parts: int, tolerated: int):
    values = numpy.array(steps) / parts + tolerated / 100
    assert chance_of(values) == pytest.approx(counted(values))


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=10))
def test_differences_without_a_common_step_are_rounded_to_a_small_one(values: list[float]):
    """No pattern may be counted that is lower by more than rounding is, none left out that is as low or lower."""
    signs = numpy.array(numpy.meshgrid(*[[-1, 1]] * len(values))).reshape(len(values), -1)
    sums = (signs * numpy.array(values)[:, None]).sum(axis=0)
    room = len(values) * sum(map(abs, values)) / 50_000 + 1e-9
    low, high = ((sums <= sum(values) + room * sign).mean() for sign in (-1, 1))
    assert low - 1e-9 <= chance_of(values) <= high + 1e-9


@pytest.mark.parametrize("size", [10, 13, 14, 100, 1000, 3999, 4000, 250_000])
def test_a_p_has_no_floor_but_that_of_one_pattern_in_all(size: int):
    """Resampling has one: with 9999 samples none is below 1 in 10,000, which Holm made 0.02 of over 200 comparisons."""
    assert least_chance(size) <= chance_of([-0.3] * size) <= 2.0**-size
    spread = -numpy.random.default_rng(size).uniform(0.2, 1, size)
    assert chance_of(spread) <= max(2.0**-size, 1e-300) * 1.001
    assert chance_of(-spread) == pytest.approx(1.0)


@pytest.mark.parametrize("graded", [False, True])
@pytest.mark.parametrize("size", [10, 30, 60])
def test_two_runs_of_one_model_alarm_as_often_as_a_small_alpha_says(size: int, graded: bool):
    """2000 pairs of nights at 0.01: 20 alarms are to be expected, and more than 38 one time in 10,000."""
    random = numpy.random.default_rng(size)
    ability = random.beta(0.6, 0.4, size)
    noise = random.normal(0, 0.1, (2, 2000, size)) if graded else numpy.zeros((2, 2000, size))
    old, new = random.binomial(4, ability, (2, 2000, size)) / 4 + noise
    assert sum(chance_of(row) < 0.01 for row in new - old) <= 38


def test_the_large_way_is_students():
    values = numpy.random.default_rng(1).normal(-0.01, 1, 5000)
    found = paired_test(values)
    assert found.p == pytest.approx(float(stats.ttest_1samp(values, 0, alternative="less").pvalue))
    assert (found.low, found.high) == pytest.approx(tuple(stats.ttest_1samp(values, 0).confidence_interval(0.95)))


def test_the_two_ways_agree():
    values = numpy.random.default_rng(2).choice([-1.0, 0.0, 1.0], 3999)
    resampled, normal = paired_test(values), paired_test([*values, 0.0])
    assert resampled.p == pytest.approx(normal.p, abs=0.04)
    assert resampled.low == pytest.approx(normal.low, abs=0.003)


@pytest.mark.parametrize(
    ("value", "tolerated", "p"), [(0.0, 0.0, 1.0), (0.1, 0.0, 1.0), (-0.1, 0.0, 2**-12), (-0.1, 0.1, 1.0)]
)
def test_tasks_that_all_moved_alike(value: float, tolerated: float, p: float):
    found = paired_test([value] * 12, tolerated)
    assert (found.p, found.low, found.mean, found.high) == (
        p,
        pytest.approx(value),
        pytest.approx(value),
        pytest.approx(value),
    )


def test_the_same_seed_gives_the_same_and_another_nearly():
    values = numpy.random.default_rng(4).choice([-1.0, 0.0, 1.0], 300)
    assert paired_test(values, seed=1) == paired_test(values, seed=1)
    assert paired_test(values, seed=1).p == pytest.approx(paired_test(values, seed=2).p, abs=0.05)


@pytest.mark.parametrize("values", [[], [1.0], [1.0, math.nan], [math.inf, 0.0]])
def test_what_cannot_be_tested_is_refused(values: list[float]):
    with pytest.raises(ValueError, match="two differences"):
        paired_test(values)


def test_holm_by_the_book():
    assert corrected([0.01, 0.04, 0.03, 0.005], "holm") == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert corrected([0.01, 0.04, 0.03, 0.005], "benjamini-hochberg") == pytest.approx([0.02, 0.04, 0.04, 0.02])
    assert corrected([0.01, 0.04], "none") == [0.01, 0.04]
    assert corrected([0.2], "holm") == [0.2]


@given(st.lists(st.floats(0, 1), max_size=12))
def test_corrections_keep_order_and_lie_between_the_value_and_bonferroni(values: list[float]):
    for method in ("holm", "benjamini-hochberg"):
        found = corrected(values, method)  # type: ignore[arg-type]
        assert all(p - 1e-12 <= q <= min(1.0, p * len(values)) + 1e-12 for p, q in zip(values, found, strict=True))
        order = sorted(range(len(values)), key=values.__getitem__)
        assert all(found[a] <= found[b] + 1e-12 for a, b in itertools.pairwise(order))
