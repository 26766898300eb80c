"""Which results stand: counts, metrics, and what people read when they do not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import pytest

from airflow_gym_provider.results import FileFacts, Summary, Survey, judge, recount

ROLLOUTS, METRICS = "/w/rollouts.jsonl", "/w/rollouts_aggregate_metrics.json"


@dataclass(frozen=True)
class Spec:
    rollouts_path: str = ROLLOUTS
    require_complete: bool = True
    judged_by: Literal["rollouts", "exit_status"] = "rollouts"


PARTIAL = Spec(require_complete=False)


def found(done: int | None, expected: int | None, failed: int = 0, metrics_at: int | None = 1000) -> Survey:
    def facts(path: str, lines: int | None, mtime: int = 1000) -> FileFacts:
        return FileFacts(path, "missing") if lines is None else FileFacts(path, "ok", 9, mtime, lines)

    return Survey(
        facts(ROLLOUTS, done),
        facts("/w/rollouts_materialized_inputs.jsonl", expected),
        facts("/w/rollouts_failures.jsonl", failed),
        facts(METRICS, None if metrics_at is None else 1, metrics_at or 0),
        {"mean/reward": 0.5},
    )


def test_all_rollouts_and_metrics_of_their_own() -> None:
    verdict = judge(found(100, 100), Spec())
    assert verdict.complete
    assert verdict.reason == f"100 of 100 rollouts in {ROLLOUTS}"
    assert (verdict.done, verdict.expected, verdict.looked) == (100, 100, True)


@pytest.mark.parametrize(
    ("survey", "text"),
    [
        (found(97, 100), f"97 of 100 rollouts in {ROLLOUTS}"),
        (found(97, 100, failed=3), "3 failed attempts in /w/rollouts_failures.jsonl"),
        (found(0, 100), f"0 of 100 rollouts in {ROLLOUTS}"),
        (found(0, 0), "0 of 0"),
        (found(None, 100), f"no rollouts: {ROLLOUTS} does not exist"),
        (found(None, None), "does not exist"),
        (found(5, None), "rollouts_materialized_inputs.jsonl does not exist"),
        (found(103, 100), "more than expected"),
        (found(100, 100, metrics_at=None), f"{METRICS} does not exist"),
        (found(100, 100, metrics_at=900), f"{METRICS} is 100 s older than the rollouts"),
        (replace(found(100, 100), metrics_problem=f"{METRICS} is not valid JSON"), "is not valid JSON"),
        (replace(found(100, 100), metrics={}), f"but no metrics: {METRICS} holds no finite number"),
        (replace(found(100, 100), metrics={}, notes=("x is NaN",)), "holds no finite number (x is NaN)"),
    ],
)
def test_what_is_missing_is_told(survey: Survey, text: str) -> None:
    verdict = judge(survey, Spec())
    assert not verdict.complete
    assert verdict.looked
    assert text in verdict.reason


@pytest.mark.row("`run.require_complete: false`")
@pytest.mark.parametrize(
    ("survey", "complete", "text"),
    [
        (found(97, 100, 3), True, "97 of 100 rollouts in /w/rollouts.jsonl: a partial result"),
        (found(100, 100), True, "100 of 100"),
        (found(5, None), True, "5 rollouts"),
        (found(0, 100), False, "0 of 100"),
        (found(0, None), False, "0 rollouts"),
        (found(97, 100, metrics_at=None), False, "no metrics"),
    ],
)
def test_a_partial_result_may_be_accepted_and_says_so(survey: Survey, complete: bool, text: str) -> None:
    verdict = judge(survey, PARTIAL)
    assert verdict.complete is complete
    assert text in verdict.reason


@pytest.mark.parametrize("status", ["unknown", "unreadable"])
def test_files_that_could_not_be_looked_at_say_nothing(status: Literal["unknown", "unreadable"]) -> None:
    verdict = judge(replace(found(100, 100), inputs=FileFacts("/w/inputs", status)), PARTIAL)
    assert (verdict.complete, verdict.looked) == (False, False)
    assert "/w/inputs" in verdict.reason


def test_remarks_are_handed_on() -> None:
    assert judge(replace(found(4, 4), notes=("x is NaN",)), Spec()).reason.endswith("; x is NaN")


def test_a_command_is_judged_by_its_exit_status() -> None:
    assert judge(found(None, None), Spec(judged_by="exit_status")).complete


def test_results_elsewhere_count_only_when_this_chain_can_have_written_them() -> None:
    survey = found(100, 100, metrics_at=1000)
    assert judge(survey, Spec(), since=990.0).complete
    assert judge(survey, Spec(), since=1290.0).complete, "clocks may differ a little"
    verdict = judge(survey, Spec(), since=5000.0)
    assert not verdict.complete and "from before this chain's first job" in verdict.reason


@pytest.mark.parametrize(
    ("summary", "words"),
    [
        (Summary(rollouts=99, duplicates=1), f"99 of 100 rollouts in {ROLLOUTS}: 1 lines are there twice"),
        (Summary(rollouts=98, unreadable=2), f"98 of 100 rollouts in {ROLLOUTS}: 2 lines are no JSON"),
        (Summary(rollouts=99), f"99 of 100 rollouts in {ROLLOUTS}: the rest is blank"),
        (
            Summary(rollouts=50, duplicates=49, unreadable=1),
            f"50 of 100 rollouts in {ROLLOUTS}: 49 lines are there twice, 1 lines are no JSON",
        ),
    ],
)
def test_what_stands_for_a_missing_rollout_is_found_in_reading(summary: Summary, words: str) -> None:
    verdict = recount(judge(found(100, 100), Spec()), Spec(), summary)
    assert (verdict.complete, verdict.whole, verdict.looked, verdict.reason) == (False, False, True, words)
    assert (verdict.done, verdict.expected) == (summary.rollouts, 100)


def test_what_adds_up_is_as_it_was() -> None:
    by_lines = judge(replace(found(100, 100), notes=("x is NaN",)), Spec())
    assert recount(by_lines, Spec(), Summary(rollouts=100)) == by_lines
    assert by_lines.whole


@pytest.mark.parametrize(
    ("survey", "rollouts", "complete", "whole", "words"),
    [
        (
            found(100, 100),
            50,
            True,
            False,
            "50 of 100 rollouts in /w/rollouts.jsonl: 1 lines are there twice; a partial",
        ),
        (found(100, 100), 100, True, True, "100 of 100"),
        (found(2, 20), 2, True, False, "2 of 20 rollouts in /w/rollouts.jsonl: a partial result, accepted by"),
        (found(5, None), 5, True, False, "5 rollouts in /w/rollouts.jsonl, and no list"),
        (found(5, None), 4, True, False, "4 rollouts in /w/rollouts.jsonl: 1 lines are there twice; a partial"),
        (found(100, 100), 0, False, False, "0 of 100 rollouts in /w/rollouts.jsonl: 1 lines"),
    ],
)
def test_a_partial_result_counts_rollouts_and_is_never_whole(
    survey: Survey, rollouts: int, complete: bool, whole: bool, words: str
) -> None:
    verdict = recount(judge(survey, PARTIAL), PARTIAL, Summary(rollouts=rollouts, duplicates=1))
    assert (verdict.complete, verdict.whole, verdict.done) == (complete, whole, rollouts)
    assert verdict.reason.startswith(words)


@pytest.mark.parametrize("spec", [Spec(), PARTIAL])
@pytest.mark.parametrize("missing", [True, False])
def test_rollouts_that_could_not_be_read_say_nothing(spec: Spec, missing: bool) -> None:
    """Also those that were there a moment ago: the next look counts the lines again."""
    verdict = recount(judge(found(100, 100), spec), spec, Summary(problem="/w is away", missing=missing))
    assert (verdict.complete, verdict.whole, verdict.looked) == (False, False, False)
    assert verdict.reason == "the rollouts could not be read: /w is away"


@pytest.mark.parametrize(
    ("survey", "summary", "counts", "whole"),
    [
        (found(None, None), Summary(problem="none", missing=True), (0, None, True), True),
        (found(None, None), Summary(problem="no room"), (0, None, False), True),
        (found(20, 20), Summary(problem="no room"), (0, None, False), True),
        (found(20, 20), Summary(rollouts=20), (20, 20, True), True),
        (found(20, 20), Summary(rollouts=18, duplicates=2), (18, 20, True), False),
        (found(18, 20), Summary(rollouts=18), (18, 20, True), False),
        (found(9, None), Summary(unreadable=9), (0, None, True), True),
    ],
)
def test_a_commands_exit_status_stands_whatever_it_wrote_and_its_rollouts_are_counted(
    survey: Survey, summary: Summary, counts: tuple[int, int | None, bool], whole: bool
) -> None:
    spec = Spec(judged_by="exit_status")
    verdict = recount(judge(survey, spec), spec, summary)
    assert (verdict.complete, verdict.reason) == (True, "judged by its exit status")
    assert ((verdict.done, verdict.expected, verdict.looked), verdict.whole) == (counts, whole)
