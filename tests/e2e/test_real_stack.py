"""Airflow, ssh, Slurm, the real vLLM with a small model that guesses, and the real gym that judges it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from real_parts import GYM_CONFIG, VLLM_CONFIG, install, keys, overrides, rollouts, start
from stack import Run, Stack

pytestmark = [pytest.mark.real_stack, pytest.mark.slow]
SECONDS = 900


@pytest.fixture(scope="session")
def real_stack_run(stack: Stack) -> Run:
    """The DAG run that the tests of this file are about."""
    environ = install("real_gym", stack.cluster) | install("real_stack", stack.cluster)
    facts = {
        "config": [str(GYM_CONFIG), str(VLLM_CONFIG)],
        "environ": environ,
        "overrides": overrides(f"job.output_path={stack.runs}"),
    }
    return start(stack, "e2e_real_stack", facts)


@pytest.fixture(scope="session")
def result(real_stack_run: Run) -> dict[str, Any]:
    """What the task returned."""
    return real_stack_run.green("evaluated", seconds=SECONDS)


def test_a_real_model_is_evaluated_from_airflow_to_metrics(result: dict[str, Any]):
    rows = rollouts(result)
    assert (result["rollouts_done"], result["rollouts_expected"], len(keys(rows))) == (20, 20, 20)
    assert result["job_states"] == ["COMPLETED"]
    rewards = [row["reward"] for row in rows]
    assert result["metrics"]["mean/reward"] == pytest.approx(sum(rewards) / 20)
    (agent,) = json.loads(Path(result["rollouts"]).with_name("rollouts_aggregate_metrics.json").read_text())
    assert result["metrics"] == agent["key_metrics"], "what Airflow shows is what gym wrote"
    # The model guesses among ten letters: all wrong or all right would mean that nobody judged.
    assert 0 < sum(rewards) < 20


def test_the_answers_are_the_models_own(result: dict[str, Any]):
    for row in rollouts(result):
        assert row["response"]["model"] == "tiny"
        (message,) = row["response"]["output"]
        assert re.fullmatch(r"\\boxed\{[A-J]\}", message["content"][0]["text"])
        assert row["response"]["usage"]["input_tokens"] > 100
    log = (Path(result["logs"]) / f"policy-{result['job_id']}.log").read_text()
    assert log.count('POST /v1/responses HTTP/1.1" 200 OK') == 20


def test_the_record_names_the_run(result: dict[str, Any]):
    record = json.loads(Path(result["record"]).read_text())
    (benchmark,) = record["benchmarks"]
    assert benchmark["benchmark"] == "mcqa_small"
    assert benchmark["job_id"] == result["job_ids"][0]
