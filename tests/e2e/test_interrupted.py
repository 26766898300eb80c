"""People, signals and the clock between Airflow and a Slurm job: one job or none, never two, never one forgotten."""

from __future__ import annotations

from typing import Any

import pytest
from stack import Job, Run, Stack, wait_until


def ended_jobs(stack: Stack, place: dict[str, Any], count: int = 1) -> list[Job]:
    """The jobs of a chain, once accounting knows how all of them ended."""

    def ask() -> list[Job] | None:
        jobs = stack.jobs_below(place["job_dir"])
        over = {job.job_id for job in jobs} - stack.live_jobs()
        return jobs if len(over) == len(jobs) >= count and all(job.end != "Unknown" for job in jobs) else None

    jobs = wait_until(f"jobs in {place['job_dir']} over", 90, ask, say=lambda: str(stack.jobs_below(place["job_dir"])))
    assert len(jobs) == count, jobs
    return jobs


def place_of(run: Run, task_id: str, seconds: float = 240) -> dict[str, Any]:
    """The XCom `gym_job` of a task, once it is there."""
    return wait_until(
        f"{task_id} has a job",
        seconds,
        lambda: (task := run.task(task_id)).get("task_id") and run.api.result(task, "gym_job"),
        say=lambda: run.story(task_id),
    )


@pytest.mark.dag("e2e_marked")
@pytest.mark.parametrize("task_id", ["deferred", "in_worker"])
def test_marking_a_task_failed_cancels_its_job(run: Run, stack: Stack, task_id: str):
    place = place_of(run, task_id)
    run.wait_for(task_id, {"deferred": "deferred", "in_worker": "running"}[task_id])
    run.mark(task_id, "failed")
    (job,) = ended_jobs(stack, place)
    assert (job.job_id, job.state.split()[0]) == (place["job_id"], "CANCELLED")
    assert run.task(task_id)["state"] == "failed"
    wait_until(
        "the log tells what became of the job",
        30,
        lambda: f"cancelled job {job.job_id}" in run.log(task_id, run.task(task_id)["try_number"]),
        say=lambda: run.story(task_id),
    )


@pytest.mark.dag("e2e_cleared")
def test_clearing_a_running_task_cancels_its_job_and_runs_one_new_one(run: Run, stack: Stack):
    before = run.job("cleared")
    run.clear("cleared")
    after = wait_until(
        "a job of the second try",
        240,
        lambda: (
            (found := run.api.result(run.task("cleared"), "gym_job")) and found["job_id"] != before["job_id"] and found
        ),
        say=lambda: run.story("cleared"),
    )
    stack.open_gate("cleared")
    result = run.green("cleared")
    cancelled, completed = ended_jobs(stack, before, 2)
    assert [cancelled.state.split()[0], completed.state] == ["CANCELLED", "COMPLETED"]
    assert (cancelled.job_id, completed.job_id) == (before["job_id"], after["job_id"])
    assert cancelled.end <= completed.start, "two of them were alive at once"
    assert result["job_id"] == completed.job_id


@pytest.mark.dag("e2e_killed")
def test_killed_workers_and_triggerers_neither_lose_nor_double_a_job(run: Run, stack: Stack):
    workers = ["worker_early", "worker_late"]
    for worker in workers:
        run.wait_for(worker, "deferred", tries=2)
        assert not (stack.folder / "kills" / worker).exists(), "it was not killed"
    places = {task: run.job(task) for task in [*workers, "triggerer"]}
    stack.kill_triggerer()
    stack.up()
    stack.open_gate("killed")
    for task, place in places.items():
        result = run.green(task)
        (job,) = ended_jobs(stack, place)
        assert (job.job_id, job.state) == (place["job_id"], "COMPLETED")
        assert result["job_ids"] == [job.job_id]
    assert run.task("triggerer")["try_number"] == 1
    assert [run.task(worker)["try_number"] for worker in workers] == [2, 2]


@pytest.mark.dag("e2e_deadline")
@pytest.mark.parametrize("task_id", ["deferred", "in_worker"])
def test_a_task_whose_time_is_over_cancels_its_job_and_says_so(run: Run, stack: Stack, task_id: str):
    place = place_of(run, task_id)
    log = run.red(task_id)
    (job,) = ended_jobs(stack, place)
    assert job.state.split()[0] == "CANCELLED"
    assert job.elapsed < 110
    assert "execution_timeout" in log
    assert run.task(task_id)["try_number"] == 1
