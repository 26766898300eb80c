"""People, signals and the clock between Airflow and a Slurm job: one job or none, never two, never one forgotten."""

from __future__ import annotations

from pathlib import Path
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


def place_of(run: Run, task_id: str, map_index: int = -1, seconds: float = 240) -> dict[str, Any]:
    """The XCom `gym_job` of a task, once it is there."""
    return wait_until(
        f"{task_id} has a job",
        seconds,
        lambda: (task := run.task(task_id, map_index)).get("task_id") and run.api.result(task, "gym_job"),
        say=lambda: run.story(task_id, map_index),
    )


@pytest.mark.row("you mark a running task failed or success")
@pytest.mark.dag("e2e_marked")
@pytest.mark.parametrize(
    ("task_id", "meanwhile", "state"),
    [
        ("deferred", "deferred", "failed"),
        ("in_worker", "running", "failed"),
        ("deferred_green", "deferred", "success"),
        ("in_worker_green", "running", "success"),
    ],
)
def test_marking_a_running_task_cancels_its_job_and_stays(
    run: Run, stack: Stack, task_id: str, meanwhile: str, state: str
):
    place = place_of(run, task_id)
    run.wait_for(task_id, meanwhile)
    run.mark(task_id, state)
    (job,) = ended_jobs(stack, place)
    assert (job.job_id, job.state.split()[0]) == (place["job_id"], "CANCELLED")
    assert run.task(task_id)["state"] == state, "what a person has said stays"
    wait_until(
        "the log tells what became of the job",
        30,
        lambda: f"cancelled job {job.job_id}" in run.log(task_id, run.task(task_id)["try_number"]),
        say=lambda: run.story(task_id),
    )


@pytest.mark.row("you mark or clear it while its job is being queued")
@pytest.mark.dag("e2e_marked")
def test_no_job_slips_through_a_cancel_while_it_is_being_queued(run: Run, stack: Stack):
    place = place_of(run, "slipping")
    run.wait_for("slipping", "deferred")
    run.clear("slipping")
    wait_until("sbatch is at work", 240, (Path(place["job_dir"]) / ".gym_intent").exists, every=0.2)
    run.mark("slipping", "failed")
    cleared, slipping = ended_jobs(stack, place, 2)
    assert [job.state.split()[0] for job in (cleared, slipping)] == ["CANCELLED", "CANCELLED"]
    assert run.task("slipping")["state"] == "failed"


def next_job(run: Run, task_id: str, before: dict[str, Any], map_index: int = -1) -> dict[str, Any]:
    """The XCom `gym_job` of the try that follows a clear."""

    def ask() -> dict[str, Any] | None:
        found = run.api.result(run.task(task_id, map_index), "gym_job")
        return found if found and found["job_id"] != before["job_id"] else None

    return wait_until("a job of the next try", 240, ask, say=lambda: run.story(task_id, map_index))


@pytest.mark.row("you clear a running task")
@pytest.mark.row("you clear one instance of a mapped task")
@pytest.mark.dag("e2e_cleared")
def test_clearing_a_running_task_cancels_its_job_and_runs_one_new_one(run: Run, stack: Stack):
    tasks = [("cleared", -1), ("in_worker", -1), ("mapped", 1)]
    before = {task: place_of(run, *task) for task in [*tasks, ("mapped", 0)]}
    run.wait_for("in_worker", "running")
    for task_id, map_index in tasks:
        run.clear(task_id, None if map_index < 0 else map_index)
    after = {task: next_job(run, task[0], before[task], task[1]) for task in tasks}
    stack.open_gate("cleared")
    for task in tasks:
        result = run.green(*task)
        cancelled, completed = ended_jobs(stack, before[task], 2)
        assert [cancelled.state.split()[0], completed.state] == ["CANCELLED", "COMPLETED"], task
        assert (cancelled.job_id, completed.job_id) == (before[task]["job_id"], after[task]["job_id"]), task
        assert cancelled.end <= completed.start, f"{task}: two of them were alive at once"
        assert result["job_id"] == completed.job_id, task
    run.green("mapped", 0)
    (untouched,) = ended_jobs(stack, before["mapped", 0])
    assert (untouched.job_id, untouched.state) == (before["mapped", 0]["job_id"], "COMPLETED")


@pytest.mark.row("you clear a failed task")
@pytest.mark.dag("e2e_again")
def test_clearing_a_failed_task_goes_on_in_its_directory_with_a_new_budget(run: Run, stack: Stack):
    for count in (1, 2):
        assert "max_retries is 0; chain stopped" in run.red("failed")
        place, tries = run.api.result(run.task("failed"), "gym_job"), run.task("failed")["try_number"]
        assert len(stack.jobs_below(place["job_dir"])) == count
        run.clear("failed")
        run.wait_for("failed", "running", "deferred", "success", "failed", tries=tries + 1)
    result = run.green("failed")
    assert (result["job_dir"], result["rollouts_done"]) == (place["job_dir"], 5)
    states = [job.state for job in ended_jobs(stack, place, 3)]
    assert states == ["FAILED", "FAILED", "COMPLETED"], "each on top of the answers that were there"


@pytest.mark.row("you clear a green task")
@pytest.mark.dag("e2e_again")
def test_clearing_a_green_task_runs_it_afresh_and_keeps_the_old(run: Run, stack: Stack):
    old, tries = run.green("green"), run.task("green")["try_number"]
    answers = Path(old["rollouts"]).read_bytes()
    run.clear("green")
    run.wait_for("green", "success", tries=tries + 1)
    new = run.green("green")
    assert new["run_dir"] != old["run_dir"]
    assert len(ended_jobs(stack, new)) == 1
    assert Path(old["rollouts"]).read_bytes() == answers
    assert [job.job_id for job in ended_jobs(stack, old)] == old["job_ids"]


@pytest.mark.row("the worker dies or is shut down, anywhere")
@pytest.mark.dag("e2e_killed")
def test_killed_workers_and_triggerers_neither_lose_nor_double_a_job(run: Run, stack: Stack):
    workers = ["worker_early", "worker_late"]
    for worker in workers:
        run.wait_for(worker, "deferred", tries=2)
        assert not (stack.folder / "kills" / worker).exists(), "it was not killed"
    places = {task: run.job(task) for task in [*workers, "triggerer"]}
    stack.crash("triggerer")
    stack.start_again()
    stack.open_gate("killed")
    for task, place in places.items():
        result = run.green(task)
        (job,) = ended_jobs(stack, place)
        assert (job.job_id, job.state) == (place["job_id"], "COMPLETED")
        assert result["job_ids"] == [job.job_id]
    assert run.task("triggerer")["try_number"] == 1
    assert [run.task(worker)["try_number"] for worker in workers] == [2, 2]


@pytest.mark.row("`execution_timeout` is over")
@pytest.mark.dag("e2e_deadline")
@pytest.mark.parametrize("task_id", ["deferred", "in_worker"])
def test_a_task_whose_time_is_over_cancels_its_job_and_says_so(run: Run, stack: Stack, task_id: str):
    place = place_of(run, task_id)
    log = run.red(task_id)
    (job,) = ended_jobs(stack, place)
    assert job.state.split()[0] == "CANCELLED"
    assert job.elapsed < 110
    assert "execution_timeout" in log
    assert run.retry_reasons(task_id) == []
