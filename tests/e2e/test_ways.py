"""Jinja in config files, waiting in the worker, queueing everything at once and sensors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from stack import Run, Stack


@pytest.mark.dag("e2e_templated")
@pytest.mark.parametrize(("task_id", "label"), [("templated", "from templated"), ("absolute", "given")])
def test_a_config_file_is_a_template(run: Run, stack: Stack, task_id: str, label: str):
    result = run.green(task_id)
    day = run.task(task_id)["logical_date"][:10]
    assert result["rollouts_expected"] == 7
    assert Path(result["run_dir"]).parent == stack.runs / day
    resolved = yaml.safe_load((Path(result["run_dir"]) / "resolved-config.yaml").read_text())
    assert resolved["driver"]["benchmarks"]["templated"]["run"]["label"] == label
    assert resolved["compute"]["slurm"]["extra_args"] == {"comment": f"e2e_templated of {day}"}


@pytest.mark.dag("e2e_in_worker")
def test_waiting_in_the_worker_is_the_same(run: Run, stack: Stack):
    result = run.green("stumbling")
    assert result["job_states"] == ["FAILED", "COMPLETED"]
    assert (result["rollouts_done"], result["complete"]) == (5, True)
    assert run.task("stumbling")["try_number"] >= 2
    assert [job.job_id for job in stack.jobs_below(result["job_dir"])] == result["job_ids"]


def test_a_dag_is_tried_in_one_process(stack: Stack):
    """`airflow dags test`, which is `dag.test()`: what a deferral keeps for the task is lost there."""
    stack.api.wait_for_dag("e2e_by_hand", 180)
    told = stack.airflow("dags", "test", "e2e_by_hand")
    assert "unexpected" not in told
    [run] = stack.runs_of("e2e_by_hand", "manual")
    result = run.green("stumbling", seconds=10)
    assert result["job_states"] == ["FAILED", "COMPLETED"]
    assert len(stack.jobs_below(result["job_dir"])) == 2


@pytest.mark.dag("e2e_submit")
def test_everything_is_queued_in_one_folder_and_sensors_wait_for_it(run: Run, stack: Stack):
    record = run.green("submit")
    assert [entry["benchmark"] for entry in record["benchmarks"]] == ["one", "two"]
    assert json.loads((Path(record["run_dir"]) / "gym-job.json").read_text()) == record
    for sensor in ("deferred", "here"):
        assert run.end_of(sensor)["state"] == "success", run.story(sensor)
    jobs = stack.jobs_below(record["run_dir"])
    assert [job.job_id for job in jobs] == [entry["job_id"] for entry in record["benchmarks"]]
    assert {job.state for job in jobs} == {"COMPLETED"}
