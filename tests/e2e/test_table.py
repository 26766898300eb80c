"""The rows of the decision table that no other test has: how a job ended, and what the task does then."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from stack import Job, Run, Stack, wait_until

from airflow_gym_provider.chain.endings import clock

table = pytest.mark.dag("e2e_table")
told = pytest.mark.dag("e2e_told")


def jobs_of(run: Run, stack: Stack, task_id: str) -> list[Job]:
    """The jobs of a task that has come to its end."""
    place = run.api.result(run.task(task_id), "gym_job")
    return stack.jobs_below(place["job_dir"])


def states_of(run: Run, stack: Stack, task_id: str) -> list[str]:
    return [job.state.split()[0] for job in jobs_of(run, stack, task_id)]


def counter(run: Run, task_id: str, name: str) -> int:
    """One of the counters in the chain's directory."""
    place = run.api.result(run.task(task_id), "gym_job")
    return int((Path(place["job_dir"]) / name).read_text())


@pytest.mark.row("gym ends with 75")
@table
def test_exit_code_75_is_progress_and_costs_no_retry(run: Run, stack: Stack):
    result = run.green("progress")
    assert (result["rollouts_done"], result["job_states"]) == (5, ["FAILED", "COMPLETED"])
    (reason,) = run.retry_reasons("progress")
    assert reason.startswith("FAILED 75:0 (progress made); 0:0")
    assert reason.endswith(" used; resuming")
    assert counter(run, "progress", ".gym_infra_retries") == 0


@pytest.mark.row("gym ends with 76")
@table
def test_exit_code_76_stops_the_chain_with_retries_left(run: Run, stack: Stack):
    assert "FAILED 76:0; nothing left to retry; chain stopped" in run.red("nothing_left")
    assert (run.retry_reasons("nothing_left"), states_of(run, stack, "nothing_left")) == ([], ["FAILED"])


@pytest.mark.row("the job COMPLETED, but rollouts or metrics are missing")
@table
def test_a_job_that_completed_without_results_is_red(run: Run, stack: Stack):
    log = run.red("resultless")
    assert "COMPLETED but incomplete" in log
    assert run.api.result(run.task("resultless"), "gym_job")["job_dir"] in log
    assert states_of(run, stack, "resultless") == ["COMPLETED"]


@pytest.mark.row("`max_walltime` comes near")
@table
def test_max_walltime_is_what_the_next_job_may_have_left_and_ends_the_chain(run: Run, stack: Stack):
    log = run.red("capped")
    jobs = jobs_of(run, stack, "capped")
    lines = stack.shell(f"sacct -nXP -j {','.join(job.job_id for job in jobs)} -o SubmitLine").splitlines()
    limits = [seconds_of(re.search(r"--time=(\S+)", line)[1]) for line in lines]
    spent = [sum(job.elapsed for job in jobs[:before]) for before in range(len(jobs))]
    assert limits == [30 - used for used in spent], "each job gets what those before have left"
    assert len(jobs) >= 2, "one job alone does not show it"
    used = sum(job.elapsed for job in jobs)
    assert used >= 30
    assert f"max_walltime is used up: {clock(used)} of 0:00:30 ({used} s of 30 s); chain stopped" in log


def seconds_of(limit: str) -> int:
    hours, minutes, seconds = limit.split(":")
    return int(hours) * 3600 + int(minutes) * 60 + int(seconds)


@pytest.mark.row("somebody cancels the job with `scancel`")
@table
def test_a_job_that_somebody_cancels_stops_the_chain_and_says_who(run: Run, stack: Stack):
    place = run.job("stopped")
    wait_until("it runs", 120, lambda: stack.jobs_below(place["job_dir"])[0].state == "RUNNING")
    wait_until("for more than no time", 30, lambda: stack.jobs_below(place["job_dir"])[0].elapsed > 0)
    stack.shell(f"scancel {place['job_id']}")
    assert f"CANCELLED by {os_uid()}; chain stopped" in run.red("stopped")
    assert (run.retry_reasons("stopped"), states_of(run, stack, "stopped")) == ([], ["CANCELLED"])


def os_uid() -> int:
    return Path("/proc/self").stat().st_uid


@pytest.mark.row("a job is cancelled by root before it began")
@table
def test_a_job_cancelled_by_root_before_it_began_is_replaced(run: Run, stack: Stack):
    place = run.job("unstarted")
    stack.shell(f"scancel {place['job_id']}")
    second = wait_until(
        "another job",
        120,
        lambda: (
            (found := run.api.result(run.task("unstarted"), "gym_job")) and found["job_id"] != place["job_id"] and found
        ),
        say=lambda: run.story("unstarted"),
    )
    stack.shell(f"scontrol release {second['job_id']}")
    assert run.green("unstarted")["job_states"] == ["CANCELLED", "COMPLETED"]
    (reason,) = run.retry_reasons("unstarted")
    assert reason == "CANCELLED by 0 before it began, and nobody here asked for that; resubmitting (1 of 3)"


@pytest.mark.row("the driver fails (`FAILED 1:0`), or memory runs out")
@told
def test_out_of_memory_costs_a_retry_and_names_the_cure(run: Run, stack: Stack):
    assert run.green("memory")["job_states"] == ["OUT_OF_MEMORY", "COMPLETED"]
    (reason,) = run.retry_reasons("memory")
    assert reason.startswith("OUT_OF_MEMORY after 0:0")
    assert reason.endswith("(raise the memory request: compute.slurm.extra_args.mem); retry 1 of 1")
    assert counter(run, "memory", ".gym_infra_retries") == 1


@told
@pytest.mark.parametrize(("task_id", "state"), [("late", "DEADLINE"), ("unbootable", "BOOT_FAIL")])
def test_deadline_and_boot_fail_are_failures(run: Run, stack: Stack, task_id: str, state: str):
    assert f"{state} 1:0; not resumable, so it does not run again" in run.red(task_id)
    assert len(jobs_of(run, stack, task_id)) == 1


@pytest.mark.row("Slurm shows a state that nobody knows")
@told
def test_a_state_that_nobody_knows_is_no_end(run: Run, stack: Stack):
    assert run.green("newfangled")["job_states"] == ["COMPLETED"]
    log = run.log("newfangled", run.task("newfangled")["try_number"])
    assert "FROBNICATING" in log


@pytest.mark.row("squeue and sacct both do not know the job")
@told
def test_a_job_that_slurm_does_not_know_for_long_is_lost(run: Run, stack: Stack):
    log = run.red("lost")
    assert "is lost: neither squeue nor sacct knows it" in log
    assert len(jobs_of(run, stack, "lost")) == 1


@pytest.mark.row("accounting has forgotten earlier jobs")
@told
def test_jobs_that_accounting_has_forgotten_still_count(run: Run, stack: Stack):
    run.green("purged")
    jobs = jobs_of(run, stack, "purged")
    assert [job.state for job in jobs] == ["FAILED", "FAILED", "COMPLETED"]
    used = sum(job.elapsed for job in jobs[:2])
    assert run.retry_reasons("purged")[1].endswith(f"{clock(used)} of 1:00:00 used; resuming")
    assert counter(run, "purged", ".gym_accumulated_walltime") == sum(job.elapsed for job in jobs)
