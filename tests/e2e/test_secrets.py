"""Secrets have one home: job.sh, which nobody but its owner reads."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from stack import Run, Stack


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def files(stack: Stack, run_dirs: Sequence[str]) -> Iterator[Path]:
    """All of Airflow's (database and logs among them), of these runs, and the processes seen on the login node."""
    # Slurm itself keeps script and environment of its jobs, in folders of its own.
    private = [stack.folder / "cluster" / part for part in ("state", "spool")]
    roots = [stack.home, stack.folder / "cluster", stack.dags, *map(Path, run_dirs)]
    found = [path for root in roots for path in root.rglob("*") if path.is_file()]
    yield from (path for path in found if not any(path.is_relative_to(folder) for folder in private))
    yield stack.folder / "ps.txt"


def holders(paths: Iterator[Path], secrets: Sequence[str]) -> set[Path]:
    """The files that hold one of the secrets."""
    needles = [secret.encode() for secret in secrets]
    return {path for path in paths if any(needle in path.read_bytes() for needle in needles)}


@pytest.mark.dag("e2e_secret")
def test_secrets_arrive_and_are_nowhere_else(run: Run, stack: Stack):
    secrets = list(stack.secrets.values())
    place = run.job("secret")
    waiting = json.dumps(run.task("secret"))
    assert "SlurmJobTrigger" in waiting, "the API shows the trigger with its arguments"
    stack.open_gate("secret")
    run.green("secret")
    arrived = (Path(place["logs"]) / f"driver-{place['job_id']}.log").read_text()
    assert [sha256(secret) in arrived for secret in secrets] == [True] * 3
    assert "the key is ***" in run.red("leaky")

    leak = run.api.result(run.task("leaky"), "gym_job")
    scripts = {Path(found["job_dir"]) / "job.sh" for found in (place, leak)}
    printed = Path(leak["logs"]) / f"driver-{leak['job_id']}.log"  # that benchmark prints it
    assert holders(files(stack, [place["run_dir"], leak["run_dir"]]), secrets) == {*scripts, printed}
    assert {script.stat().st_mode & 0o777 for script in scripts} == {0o600}
    assert [stack.secrets["E2E_FORWARDED_SECRET"] in script.read_text() for script in scripts] == [False] * 2
    seen = json.dumps([waiting, *run.tasks().values(), *map(run.api.result, run.tasks().values())])
    assert [secret in seen for secret in secrets] == [False] * 3
    assert f"--job-name={place['job_name']}" in (stack.folder / "ps.txt").read_text(), (
        "sbatch was seen among the processes"
    )
