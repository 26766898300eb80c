"""Five days, two at a time, each with its own checkpoint, directory and result; a day once more is a new run."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest
import yaml
from stack import Run, Stack, wait_until

DAG, SUMMARY = "backfill_checkpoints", "gym_evals.summary"
DAYS = [f"2025-02-0{day}" for day in range(1, 6)]


@pytest.fixture(scope="module")
def backfill(stack: Stack, runs: dict[str, Run]) -> list[Run]:
    """The runs of the backfill, which has begun; and one by hand for a day that it has as well."""
    stack.api.wait_for_dag(DAG, 180)
    wanted = {
        "dag_id": DAG,
        "from_date": f"{DAYS[0]}T00:00:00Z",
        "to_date": f"{DAYS[-1]}T00:00:00Z",
        "max_active_runs": 2,
        "reprocess_behavior": "completed",
    }
    stack.change("POST", "backfills", wanted)
    stack.change("POST", f"dags/{DAG}/dagRuns", {"logical_date": None, "conf": {"date": DAYS[0]}})
    stack.change("PATCH", f"dags/{DAG}?update_mask=is_paused", {"is_paused": False})
    wait_until("a run for each day", 120, lambda: len(stack.runs_of(DAG, "backfill")) == len(DAYS))
    return stack.runs_of(DAG, "backfill")


def model(job_dir: str) -> str:
    """What the policy served in that run."""
    config = yaml.safe_load((Path(job_dir).parent / "resolved-config.yaml").read_text())
    assert f"vllm serve {config['services']['policy']['model']} " in (Path(job_dir) / "job.sh").read_text()
    return str(config["services"]["policy"]["model"])


def together(spans: list[tuple[datetime, datetime]]) -> int:
    """How many of them there were at once, at most."""
    return max(sum(begin <= moment < end for begin, end in spans) for moment, _ in spans)


def test_a_run_for_each_day_is_made_at_once(backfill: list[Run]):
    found = [run.api.call("GET", run.path) for run in backfill]
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
