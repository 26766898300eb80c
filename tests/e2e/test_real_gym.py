"""Airflow, ssh, Slurm, the stand-in for vLLM, and the real `gym eval run` with its real verifier."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from real_parts import GYM_CONFIG, install, keys, overrides, rollouts, start
from stack import Run, Stack, wait_until

pytestmark = [pytest.mark.real_gym, pytest.mark.slow]
# Two runs share two cores: starting takes gym most of a minute when it has them alone.
SECONDS = 900


@pytest.fixture(scope="session")
def real_gym_run(stack: Stack) -> Run:
    """The DAG run that all tests of this file are about."""
    environ = install("real_gym", stack.cluster)
    where = f"job.output_path={stack.runs}"
    slowly = ["+services.policy.env.STANDIN_VLLM_LATENCY=lit:3", "RUN.num_samples_in_parallel=2"]
    facts = {
        "config": str(GYM_CONFIG),
        "environ": environ,
        "overrides": {"undisturbed": overrides(where), "interrupted": overrides(where, *slowly)},
    }
    return start(stack, "e2e_real_gym", facts)


@pytest.fixture(scope="session")
def interrupted_at(stack: Stack, real_gym_run: Run) -> int:
    """How many rollouts there were when the driver's step of the first job was told to end."""
    place = wait_until(
        "the job of `interrupted`",
        240,
        lambda: (task := real_gym_run.task("interrupted")).get("task_id") and real_gym_run.api.result(task, "gym_job"),
        say=lambda: real_gym_run.story("interrupted"),
    )
    path = Path(place["rollouts"])
    count = wait_until(
        "four rollouts of the real gym",
        SECONDS,
        lambda: path.exists() and (lines := path.read_bytes().count(b"\n")) >= 4 and lines,
        say=lambda: real_gym_run.story("interrupted"),
    )
    # Step 0 is the policy, step 1 the driver.
    stack.shell(f"scancel --signal=TERM {place['job_id']}.1")
    return count


def test_the_real_gym_gives_all_rollouts_and_its_own_metrics(real_gym_run: Run, stack: Stack):
    result = real_gym_run.green("undisturbed", seconds=SECONDS)
    rows = rollouts(result)
    assert (result["rollouts_done"], result["rollouts_expected"], len(rows), len(keys(rows))) == (20, 20, 20, 20)
    assert result["complete"] is True
    assert result["job_states"] == ["COMPLETED"]
    rewards = [row["reward"] for row in rows]
    assert result["metrics"]["mean/reward"] == pytest.approx(sum(rewards) / 20)
    assert result["metrics"]["pass@1/accuracy"] == pytest.approx(100 * sum(rewards) / 20)
    assert [job.job_id for job in stack.jobs_below(result["job_dir"])] == result["job_ids"]


def test_an_interrupted_run_goes_on_where_it_was(real_gym_run: Run, interrupted_at: int):
    result = real_gym_run.green("interrupted", seconds=SECONDS)
    rows = rollouts(result)
    assert 4 <= interrupted_at < 20
    assert (len(rows), len(keys(rows))) == (20, 20)
    assert result["job_states"] == ["FAILED", "COMPLETED"]
    (reason,) = real_gym_run.retry_reasons("interrupted")
    assert "retry 1 of 2" in reason
    log = (Path(result["logs"]) / f"driver-{result['job_ids'][1]}.log").read_text()
    counts = [re.search(rf"- (\d+) {words}", log) for words in ("rows already done", "rows that still need")]
    kept, left = (int(found.group(1)) for found in counts if found)
    assert interrupted_at <= kept and kept + left == 20


def test_an_interruption_does_not_change_the_metrics(real_gym_run: Run, interrupted_at: int):
    undisturbed = real_gym_run.green("undisturbed", seconds=SECONDS)
    interrupted = real_gym_run.green("interrupted", seconds=SECONDS)
    assert interrupted["metrics"] == undisturbed["metrics"]
