"""Secrets have one home: job.sh, which nobody but its owner reads."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from canaries import holders, in_answers, in_database
from stack import Run, Stack


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def folders_of(run: Run) -> list[Path]:
    """The run directories of this run's tasks."""
    records = {path: json.loads(path.read_text()) for path in run.stack.runs.glob("*/gym-job.json")}
    return [path.parent for path, record in records.items() if record["executor_metadata"]["run_id"] == run.run_id]


REASONS = {
    "refused": "invalid partition specified",
    "wrong": "host:E2E_NOT_THERE is not set",
    "no_login": "login refused",
    "broken": "broken with ***",
}


@pytest.mark.dag("e2e_secret")
def test_secrets_arrive_and_are_nowhere_else(run: Run, stack: Stack):
    arriving = ["E2E_HOST_SECRET", "E2E_FORWARDED_SECRET", "AIRFLOW_VAR_E2E_ARGUMENT_SECRET"]
    place = run.job("secret")
    assert "SlurmJobTrigger" in json.dumps(run.task("secret")), "the API shows the trigger with its arguments"
    assert in_answers(stack, run) == [], "while a task waits"
    stack.open_gate("secret")
    run.green("secret")
    arrived = (Path(place["logs"]) / f"driver-{place['job_id']}.log").read_text()
    assert [sha256(stack.secrets[name]) in arrived for name in arriving] == [True] * 3
    assert "the key is ***" in run.red("leaky")
    for task_id, reason in REASONS.items():
        assert reason in run.red(task_id), run.story(task_id)
    assert "the webhook of connection 'e2e_hook' did not take it" in run.red("leaky")

    leak = run.api.result(run.task("leaky"), "gym_job")
    folders = folders_of(run)
    scripts = {folder / name / "job.sh" for folder in folders for name in ("secret", "leaky", "refused")}
    scripts = {script for script in scripts if script.exists()}
    assert {script.parent.name for script in scripts} == {"secret", "leaky", "refused"}
    printed = Path(leak["logs"]) / f"driver-{leak['job_id']}.log"  # that benchmark prints it
    assert holders(stack, folders) == {*scripts, printed}
    assert {script.stat().st_mode & 0o777 for script in scripts} == {0o600}
    assert [stack.secrets["E2E_FORWARDED_SECRET"] in script.read_text() for script in scripts] == [False] * len(scripts)
    assert in_database(stack) == {}
    assert in_answers(stack, run) == []
    seen = (stack.folder / "ps.txt").read_text()
    assert f"--job-name={place['job_name']}" in seen, "sbatch was seen among the processes"
    assert "srun --overlap" in seen, "and so were those of the job, on its node"
