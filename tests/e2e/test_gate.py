"""A worse checkpoint is stopped, an unchanged one passes, too few tasks are no pass; each against the right run."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from stack import Run, Stack

DAG_ID = "e2e_gate"


def start(stack: Stack, date: datetime, **params: Any) -> Run:
    body = {"logical_date": date.isoformat(), "conf": params}
    return Run(stack, DAG_ID, str(stack.change("POST", f"dags/{DAG_ID}/dagRuns", body)["dag_run_id"]))


def new_past() -> datetime:
    """A date before all those of earlier sessions, whose runs a stack that is kept still has."""
    return datetime(2020, 1, 1, tzinfo=UTC) - 24 * timedelta(seconds=int(time.time()) % 31_536_000)


@pytest.fixture(scope="module")
def first(stack: Stack) -> Run:
    """The first run that there ever was: good, and nothing to compare with."""
    stack.api.wait_for_dag(DAG_ID, 180)
    stack.change("PATCH", f"dags/{DAG_ID}", {"is_paused": False})
    run = start(stack, new_past(), right=30)
    run.green("gate", seconds=300)
    return run


@pytest.fixture(scope="module")
def later(stack: Stack, first: Run) -> dict[str, Run]:
    """Runs after it, side by side; "older" is of a date before it."""
    date = datetime.fromisoformat(first.task("gate")["logical_date"])
    kinds: dict[str, dict[str, Any]] = {
        "worse": {"right": 18},
        "same": {"right": 30, "score": 0.88},
        "few": {"right": 8, "questions": 8},
        "older": {"right": 30},
        "own": {"right": 30, "score": 0.5},
    }
    offsets = {"older": -60}
    return {
        kind: start(stack, date + timedelta(minutes=offsets.get(kind, at + 1)), **params)
        for at, (kind, params) in enumerate(kinds.items())
    }


def verdict(run: Run) -> dict[str, Any]:
    return run.api.result(run.task("gate"), "gym_verdict")


def evaluated(run: Run) -> dict[str, dict[str, Any]]:
    return {result["benchmark"]: result for result in (run.green("eval", at) for at in (0, 1))}


def test_the_first_run_has_nothing_to_compare_with_and_becomes_the_baseline(first: Run):
    told = verdict(first)
    assert (told["verdict"], told["action"]) == ("no_baseline", "pass")
    assert {name: part["verdict"] for name, part in told["benchmarks"].items()} == {
        "quiz": "no_baseline",
        "own": "no_baseline",
    }


def test_results_are_summarised_where_they_lie(first: Run):
    results = evaluated(first)
    lines = [json.loads(line) for line in Path(results["quiz"]["rollouts"]).read_text().splitlines()]
    rewards = [line["reward"] for line in lines]
    summary = results["quiz"]["summary"]
    assert (summary["rollouts"], summary["tasks"]) == (len(lines), 40) == (80, 40)
    assert summary["reward"]["mean"] == sum(rewards) / len(rewards) == 0.75
    assert summary["reward_bins"] == [rewards.count(0.0), *[0] * 8, rewards.count(1.0)]
    assert summary["tokens"]["output"] == sum(line["response"]["usage"]["output_tokens"] for line in lines)
    assert len(json.dumps(summary)) < 1024
    assert results["own"]["metrics"] == {"by.lang": 0.9}


def test_a_worse_checkpoint_is_stopped_with_a_sentence(first: Run, later: dict[str, Run]):
    log = later["worse"].red("gate", seconds=300)
    told = verdict(later["worse"])
    sentence = told["benchmarks"]["quiz"]["sentence"]
    assert sentence.startswith("quiz mean/reward got worse from 0.75 to 0.45 (-0.3, 95 % interval -0.")
    assert sentence.endswith(f"over 40 tasks, against run {first.run_id}")
    assert f"regressed: {sentence}" in log
    assert (told["verdict"], told["benchmarks"]["own"]["verdict"]) == ("regressed", "pass")
    assert told["benchmarks"]["quiz"]["metrics"]["mean/reward"]["p"] < 0.001
    assert later["worse"].task("gate")["try_number"] == 1
    assert later["worse"].end_of("publish")["state"] == "upstream_failed"


def test_an_unchanged_one_passes(first: Run, later: dict[str, Run]):
    assert later["same"].green("gate", seconds=300) == "pass"
    told = verdict(later["same"])
    assert told["benchmarks"]["quiz"]["baseline"]["label"] == f"run {first.run_id}"
    assert told["benchmarks"]["quiz"]["metrics"]["mean/reward"]["pairs"] == 40
    assert "from 0.9 to 0.88 (-0.02)" in told["benchmarks"]["own"]["sentence"]
    assert later["same"].end_of("publish")["state"] == "success"


def test_too_few_tasks_are_inconclusive_and_red(later: dict[str, Run]):
    log = later["few"].red("gate", seconds=300)
    assert "inconclusive: quiz mean/reward: inconclusive, since 8 tasks to compare are fewer than the 10" in log
    assert "; 32 tasks are left out (32 only in the baseline)" in log


def test_a_harness_of_ones_own_is_compared_by_its_numbers(later: dict[str, Run]):
    later["own"].end_of("gate", seconds=300)  # red, unless the test that marks it has been before
    assert verdict(later["own"])["verdict"] == "regressed"
    part = verdict(later["own"])["benchmarks"]["own"]
    assert part["sentence"].startswith("own by.lang got worse from 0.")  # 0.9, or 0.88 if that passed before
    assert (part["metrics"]["by.lang"]["candidate"], part["metrics"]["by.lang"]["test"]) == (0.5, "numbers")


def test_a_run_of_an_older_date_never_sees_a_newer_one(later: dict[str, Run]):
    assert later["older"].green("gate", seconds=300) == "no_baseline"


def test_a_red_gate_that_a_person_marks_as_success_is_the_next_baseline(stack: Stack, later: dict[str, Run]):
    for run in later.values():
        run.end_of("gate", seconds=300)
    last = later["own"]  # the latest date
    last.mark("gate", "success")
    date = datetime.fromisoformat(last.task("gate")["logical_date"]) + timedelta(minutes=1)
    run = start(stack, date, right=30, score=0.5)
    assert run.green("gate", seconds=300) == "pass"
    assert verdict(run)["benchmarks"]["own"]["baseline"]["label"] == f"run {last.run_id}"
