"""Green means evidence, red says why, and nothing runs twice that may not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from stack import Run, Stack


def errors(run: Run, task_id: str) -> list[str]:
    """The lines of level error in the log of a task that fails without being tried again."""
    run.red(task_id)
    assert run.retry_reasons(task_id) == [], run.story(task_id)
    lines = run.log_lines(task_id, run.task(task_id)["try_number"])
    return [json.dumps(line) for line in lines if line.get("level") in ("error", "critical")]


def jobs_of(run: Run, stack: Stack, task_id: str) -> list[str]:
    """How the jobs ended of a task that has come to its end."""
    place = run.api.result(run.task(task_id), "gym_job")
    return [job.state for job in stack.jobs_below(place["job_dir"])]


def jobs_named(stack: Stack, benchmark: str) -> list[str]:
    names = stack.shell("sacct -nPXa -S now-1days -o JobName%200; squeue -h -t all -o %j").split()
    return [name for name in names if name.startswith(f"gym-{benchmark}-")]


@pytest.mark.row("the job COMPLETED, but rollouts or metrics are missing")
@pytest.mark.dag("e2e_endings")
def test_a_job_that_completed_without_all_results_is_red(run: Run, stack: Stack):
    (error,) = errors(run, "short")
    assert "3 of 10 rollouts" in error
    assert run.api.result(run.task("short"), "gym_job")["job_dir"] in error
    assert jobs_of(run, stack, "short") == ["COMPLETED"]


@pytest.mark.row("the driver fails (`FAILED 1:0`), or memory runs out")
@pytest.mark.dag("e2e_endings")
def test_failures_are_tried_again_as_often_as_max_retries_says(run: Run, stack: Stack):
    log = run.red("exhausted")
    assert run.retry_reasons("exhausted") == ["FAILED 1:0; retry 1 of 1"]
    assert jobs_of(run, stack, "exhausted") == ["FAILED", "FAILED"]
    assert "FAILED 1:0; its only retry is used; chain stopped" in log


@pytest.mark.row("a benchmark is not `resumable`")
@pytest.mark.dag("e2e_endings")
def test_a_benchmark_that_is_not_resumable_runs_once_whatever_the_dag_says(run: Run, stack: Stack):
    (error,) = errors(run, "once")
    assert "FAILED 1:0" in error
    assert jobs_of(run, stack, "once") == ["FAILED"]
    assert "ended after 1 rollouts, as standin.exit_after says" in run.red("once"), "the driver's log is shown"


@pytest.mark.row("the config is wrong")
@pytest.mark.dag("e2e_refused")
def test_every_mistake_of_a_config_is_in_one_error_and_no_job_is_made(run: Run, stack: Stack):
    (error,) = errors(run, "mistaken")
    assert "driver.benchmarks.mistaken.resumeable" in error
    assert "compute.slurm.walltime" in error
    assert "four hours" in error
    assert jobs_named(stack, "mistaken") == []


@pytest.mark.dag("e2e_refused")
def test_a_missing_mount_is_named_and_nothing_is_copied(run: Run, stack: Stack):
    (error,) = errors(run, "unmounted")
    assert f"{stack.folder}/no-such-data" in error
    assert "driver.mounts" in error
    assert "/there" not in error
    assert jobs_named(stack, "unmounted") == []
    assert list(stack.runs.glob("*/unmounted")) == []


@pytest.mark.dag("e2e_refused")
def test_a_config_that_is_not_there_is_named(run: Run, stack: Stack):
    (error,) = errors(run, "absent")
    assert f"{stack.folder}/no-such.yaml" in error


@pytest.mark.row("`sbatch` refuses for good (partition, account, walltime, QOS)")
@pytest.mark.dag("e2e_refused")
def test_what_sbatch_refuses_for_good_is_the_config_fields_error(run: Run, stack: Stack):
    (error,) = errors(run, "account")
    assert "compute.slurm.account" in error
    assert "nobody" in error
    assert jobs_named(stack, "account") == []
    record = max(stack.runs.glob("*/account"), key=lambda path: path.stat().st_mtime).parent / "gym-job.json"
    (entry,) = json.loads(record.read_text())["benchmarks"]
    assert entry["job_id"] is None
    assert "Invalid account" in entry["error"]


@pytest.mark.dag("e2e_mapped")
def test_mapped_instances_keep_their_own_rules_and_share_nothing(run: Run, stack: Stack):
    steady, stumbling = run.green("eval", 0), run.green("eval", 1)
    log = run.red("eval", 2)
    assert [run.retry_reasons("eval", index) for index in range(3)] == [[], ["FAILED 1:0; retry 1 of 2"], []]
    assert (steady["rollouts_done"], stumbling["rollouts_done"]) == (4, 5)
    assert stumbling["job_states"] == ["FAILED", "COMPLETED"]
    assert "FAILED 3:0" in log
    assert "nothing works" in log, "the driver's log is shown"
    places = [run.api.result(run.task("eval", index), "gym_job") for index in range(3)]
    for name in ("job_dir", "run_dir", "job_name", "job_id", "benchmark"):
        assert len({place[name] for place in places}) == 3, name
    for place, count in zip(places, (1, 2, 1), strict=True):
        assert len(stack.jobs_below(place["run_dir"])) == count
        (entry,) = json.loads(Path(place["record"]).read_text())["benchmarks"]
        assert (entry["benchmark"], entry["job_id"]) == (place["benchmark"], place["job_id"])
