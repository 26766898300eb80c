"""Five days, two at a time, each with its own checkpoint, directory and result; a day once more is a new run."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from urllib.error import HTTPError

import pytest
import yaml
from stack import Run, Stack, wait_until

DAG, SUMMARY = "backfill_checkpoints", "gym_evals.summary"
DAYS = [f"2025-02-0{day}" for day in range(1, 6)]


@pytest.fixture(scope="module")
def backfill(stack: Stack, runs: dict[str, Run]) -> list[Run]:
    """The runs of the backfill, which has begun; and one by hand for a day that it has as well."""
    found = backfilled(stack, DAG, DAYS)
    stack.change("POST", f"dags/{DAG}/dagRuns", {"logical_date": None, "conf": {"date": DAYS[0]}})
    return found


def backfilled(stack: Stack, dag_id: str, days: list[str]) -> list[Run]:
    """The runs of a new backfill over these days, two at a time."""
    stack.api.wait_for_dag(dag_id, 180)
    wanted = {
        "dag_id": dag_id,
        "from_date": f"{days[0]}T00:00:00Z",
        "to_date": f"{days[-1]}T00:00:00Z",
        "max_active_runs": 2,
        "reprocess_behavior": "completed",
    }
    try:
        stack.change("POST", "backfills", wanted)
    except HTTPError as problem:
        if problem.code != 409:
            raise
        # On SQLite Airflow may leave half a backfill behind when it finds the database locked.
        for half in stack.api.call("GET", f"backfills?dag_id={dag_id}")["backfills"]:
            if not half["completed_at"]:
                stack.change("PUT", f"backfills/{half['id']}/cancel", {})
        stack.change("POST", "backfills", wanted)
    stack.change("PATCH", f"dags/{dag_id}?update_mask=is_paused", {"is_paused": False})
    wait_until("a run for each day", 120, lambda: len(stack.runs_of(dag_id, "backfill")) == len(days))
    return stack.runs_of(dag_id, "backfill")


@pytest.fixture(scope="module")
def two_days(stack: Stack, backfill: list[Run]) -> list[Run]:
    """A backfill of which one benchmark of the second day fails until the gate "dates" is open."""
    return backfilled(stack, "e2e_dates", ["2025-03-01", "2025-03-02"])


def ends(run: Run) -> dict[tuple[str, int], tuple[int, str]]:
    """Which try each task is in, and when that began."""
    return {key: (task["try_number"], task["start_date"]) for key, task in run.tasks().items()}


@pytest.mark.slow
def test_clearing_one_failed_benchmark_of_one_date_runs_only_that_again(two_days: list[Run], stack: Stack):
    runs = sorted(two_days, key=lambda run: run.run_id)
    for run, end in zip(runs, ["success", "failed"], strict=True):
        wait_until(
            f"{run.run_id} {end}", 300, lambda run=run, end=end: run.api.run_state(run.dag_id, run.run_id) == end
        )
    red = [key for key, task in runs[1].tasks().items() if key[1] >= 0 and task["state"] == "failed"]
    assert len(red) == 1
    before = [ends(run) for run in runs]
    stack.open_gate("dates")
    runs[1].clear(*red[0], downstream=True)
    wait_until("the second day's good end", 240, lambda: stack.api.run_state("e2e_dates", runs[1].run_id) == "success")
    after = [ends(run) for run in runs]
    assert after[0] == before[0]
    assert {key for key in after[1] if after[1][key] != before[1][key]} == {*red, (SUMMARY, -1)}


def model(job_dir: str) -> str:
    """What the policy served in that run."""
    config = yaml.safe_load((Path(job_dir).parent / "resolved-config.yaml").read_text())
    assert f"vllm serve {config['services']['policy']['model']} " in (Path(job_dir) / "job.sh").read_text()
    return str(config["services"]["policy"]["model"])


def together(spans: list[tuple[datetime, datetime]]) -> int:
    """How many of them there were at once, at most."""
    return max(sum(begin <= moment < end for begin, end in spans) for moment, _ in spans)


def test_a_run_for_each_day_is_made_at_once(backfill: list[Run], two_days: list[Run]):
    found = [run.api.call("GET", run.path) for run in backfill]
    assert len(two_days) == 2
    assert sorted(run["logical_date"][:10] for run in found) == DAYS


@pytest.mark.slow
def test_each_day_has_a_directory_and_a_result_of_its_checkpoint(backfill: list[Run], stack: Stack):
    results = {}
    for run in backfill:
        day = run.api.call("GET", run.path)["logical_date"][:10]
        results[day] = run.green(SUMMARY, seconds=420)["gpqa"]
    assert {day: model(result["job_dir"]) for day, result in results.items()} == {
        day: f"/checkpoints/policy/{day}" for day in DAYS
    }
    assert len({result["record"] for result in results.values()}) == len(DAYS)
    assert [result["rollouts_done"] for result in results.values()] == [20] * len(DAYS)
    jobs = [stack.jobs_below(result["job_dir"]) for result in results.values()]
    assert [[job.state for job in found] for found in jobs] == [["COMPLETED"]] * len(DAYS)

    for run in backfill:
        wait_until("its end", 60, lambda run=run: run.api.run_state(DAG, run.run_id) == "success")
    times = [run.api.call("GET", run.path) for run in backfill]
    spans = [(datetime.fromisoformat(run["start_date"]), datetime.fromisoformat(run["end_date"])) for run in times]
    assert together(spans) == 2
    seconds = [(datetime.fromisoformat(job.start), datetime.fromisoformat(job.end)) for (job,) in jobs]
    assert together(seconds) <= 2


@pytest.mark.slow
def test_a_day_once_more_is_a_run_of_its_own(backfill: list[Run], stack: Stack):
    (again,) = stack.runs_of(DAG, "manual")[-1:]
    result = again.green(SUMMARY, seconds=420)["gpqa"]
    assert model(result["job_dir"]) == f"/checkpoints/policy/{DAYS[0]}"
    assert result["record"] not in [run.green(SUMMARY, seconds=420)["gpqa"]["record"] for run in backfill]
