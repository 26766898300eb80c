"""GymSubmitOperator once more in a directory that has jobs already: the real scripts, on a stand-in Slurm."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from fakes.task_context import Store

from airflow_gym_provider.exceptions import ChainRetry
from airflow_gym_provider.operators.gym import GymSubmitOperator

REFUSED = "sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified\n"


@pytest.fixture
def two(submit_config):
    """Two benchmarks."""
    benchmarks = submit_config["driver"]["benchmarks"]
    benchmarks["aime"] = copy.deepcopy(benchmarks["gpqa"])
    return submit_config


def of_model(config: dict[str, Any], name: str) -> dict[str, Any]:
    made = copy.deepcopy(config)
    made["services"]["policy"]["model"] = name
    return made


def submit(config, context) -> dict[str, str]:
    """Benchmark to job, and that each job's script is of the config's model."""
    record = GymSubmitOperator(task_id="submit", config=config).execute(context)
    for entry in record["benchmarks"]:
        assert config["services"]["policy"]["model"] in (Path(entry["job_dir"]) / "job.sh").read_text()
    return {entry["benchmark"]: entry["job_id"] for entry in record["benchmarks"]}


@pytest.mark.parametrize("limit", [None, 9])
def test_a_dag_run_that_was_deleted_and_made_again_takes_no_job_of_another_config(slurm, context, submit_config, limit):
    assert submit(submit_config, context) == {"gpqa": "101"}
    slurm.set(101, state="COMPLETED")
    context["task_state_store"] = Store()
    assert submit(submit_config, context) == {"gpqa": "101"}, "the very same may be taken"
    other = of_model(submit_config, "org/model" if limit else "org/other")
    other["driver"]["benchmarks"]["gpqa"]["run"] |= {"limit": limit} if limit else {}
    assert submit(other, context) == {"gpqa": "102"}
    assert submit(other, context) == {"gpqa": "102"}


def test_a_red_task_that_is_cleared_with_another_model_has_all_of_it_anew(slurm, context, two):
    slurm.plan("sbatch", {}, {"rc": 1, "creates": False, "stderr": REFUSED})
    with pytest.raises(AirflowFailException, match="account"):
        submit(two, context)
    slurm.set(101, state="COMPLETED")
    context["ti"].max_tries += 1
    assert submit(of_model(two, "org/other"), context) == {"gpqa": "102", "aime": "103"}


def test_a_job_of_another_config_that_lives_is_no_job_of_this_one(slurm, context, submit_config):
    submit(submit_config, context)
    context["task_state_store"] = Store()
    other = of_model(submit_config, "org/other")
    with pytest.raises(
        AirflowFailException, match=r"gpqa: job 101 .* are of policy org/model, .*cancel it, and try again"
    ):
        submit(other, context)
    assert len(slurm.calls("sbatch")) == 1
    slurm.set(101, state="CANCELLED")
    assert submit(other, context) == {"gpqa": "102"}


@pytest.mark.parametrize("purged", [False, True])
def test_a_green_task_that_is_cleared_queues_all_anew_also_when_its_memory_is_gone(slurm, context, two, purged):
    assert submit(two, context) == {"gpqa": "101", "aime": "102"}
    for job in (101, 102):
        slurm.set(job, state="COMPLETED")
    if purged:
        context["task_state_store"] = Store()
    context["ti"].max_tries += 1
    context["dag_run"].clear_number = 1
    assert submit(two, context) == {"gpqa": "103", "aime": "104"}


def test_a_red_task_whose_memory_is_gone_queues_what_is_missing_alone(slurm, context, two):
    slurm.plan("sbatch", {}, {"rc": 1, "creates": False, "stderr": REFUSED})
    with pytest.raises(AirflowFailException):
        submit(two, context)
    slurm.set(101, state="COMPLETED")
    context["task_state_store"] = Store()
    context["ti"].max_tries += 1
    assert submit(two, context) == {"gpqa": "101", "aime": "102"}


def test_a_job_that_is_not_in_the_record_yet_is_no_reason_to_be_green(slurm, context, two, monkeypatch):
    submit(two, context)
    record = Path(two["job"]["output_path"]).glob("*/gym-job.json")
    (path,) = record
    fields = json.loads(path.read_text())
    fields["benchmarks"] = [entry for entry in fields["benchmarks"] if entry["benchmark"] != "aime"]
    path.write_text(json.dumps(fields))
    with pytest.raises(ChainRetry, match=r"aime: queued, but not in .*gym-job\.json yet"):
        submit(two, context)
    assert len(slurm.calls("sbatch")) == 2
