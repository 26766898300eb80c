"""Two worker processes that both believe to have one task: the real scripts, on a stand-in Slurm."""

from __future__ import annotations

import copy
import logging
from pathlib import Path

import pytest

from airflow_gym_provider.exceptions import ChainRetry
from airflow_gym_provider.operators import _chain
from airflow_gym_provider.operators._arguments import EvalArguments
from airflow_gym_provider.operators._chain import ChainTask
from airflow_gym_provider.operators._memory import ChainMemory


@pytest.mark.row("the worker dies or is shut down, anywhere")
def test_a_worker_that_was_given_up_makes_no_job_beside_one_that_has_begun_anew(
    slurm, context, submit_config, monkeypatch
):
    """It has looked and is about to submit when the next try, with another config, leaves the directory."""

    def worker(limit: int) -> ChainTask:
        config = copy.deepcopy(submit_config)
        config["driver"]["benchmarks"]["gpqa"]["run"]["limit"] = limit
        given = {"config": config, "benchmark": None, "overrides": (), "environ": {}, "ssh_conn_id": None}
        given |= {"poll_interval": 30.0, "results_timeout": 60.0, "lost_after": 90.0, "run_group": None}
        given |= {"execution_timeout": None, "retry_delay": 2.0, "retries": 10_000}
        return ChainTask(EvalArguments(**given), context, logging.getLogger("chain"))

    first = worker(4)
    first.start()
    slurm.set(101, state="FAILED", exit="1:0", elapsed=60)
    artifacts = Path(first.plan.job_dir) / "artifacts"
    (artifacts / "rollouts.jsonl").write_text('{"a": 1}\n' * 2)
    (artifacts / "rollouts_materialized_inputs.jsonl").write_text('{"a": 1}\n' * 4)
    submit, others = _chain._submit.submit, [lambda: worker(9).start()]

    def late(*args, **kwargs):
        while others:
            others.pop()()
        return submit(*args, **kwargs)

    monkeypatch.setattr(_chain._submit, "submit", late)
    with pytest.raises(ChainRetry, match="another worker has taken over this task, and begun anew"):
        worker(4).start()
    assert slurm.live == [102]
    assert ChainMemory.of(context).generation == 1
