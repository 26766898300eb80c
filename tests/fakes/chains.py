"""Chains for tests: the real scripts, run by the real bash, on whatever cluster `environ` points at."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol, TypeVar

from airflow_gym_provider.chain import (
    ChainKey,
    ChainPlace,
    Limits,
    Look,
    RecordHead,
    RunFiles,
    StagedFile,
    Submission,
    SubmitReport,
    Timing,
    cancel_script,
    decide,
    look_script,
    read_cancel,
    read_look,
    read_submit,
    run_dir,
    submit_script,
)
from airflow_gym_provider.slurm.remote import Answer, RemoteScript

KEY = ChainKey("nightly", "scheduled__2026-01-31", "evals")
STAMP = datetime(2026, 1, 31, 8, 5, 9, tzinfo=UTC)
JOB = "#!/bin/bash\n#SBATCH --job-name=gym-x\nexport KEY='CANARY-in-job.sh'\ntrue\n"
Found = TypeVar("Found")
LIMITS = Limits(resumable=True, max_retries=2, walltime=7200)


class Environ(Protocol):
    """A cluster, as far as a script's process needs it."""

    @property
    def environ(self) -> dict[str, str]: ...


class Chains:
    """The benchmarks of one run, as a task's worker sees them. Every method is one round trip."""

    def __init__(self, output: Path, slurm: Environ, *benchmarks: str, key: ChainKey = KEY) -> None:
        self.slurm, self.key, self.benchmarks = slurm, key, benchmarks
        self.run_dir = run_dir(str(output), key, STAMP)
        self.places = [ChainPlace.at(self.run_dir, benchmark, key) for benchmark in benchmarks]
        self.timing = Timing(lock=5, sbatch=5, query=5, quiet=30)
        self.environ: dict[str, str] = {}

    def directory(self, benchmark: str | None = None) -> Path:
        return Path(self.run_dir, benchmark or self.benchmarks[0])

    def file(self, name: str, benchmark: str | None = None) -> str:
        return (self.directory(benchmark) / name).read_text()

    def run(self, script: RemoteScript, environ: dict[str, str] | None = None) -> Answer:
        done = subprocess.run(
            ["bash", "-s"],
            input=script.text,
            text=True,
            capture_output=True,
            env={**self.slurm.environ, **self.environ, **(environ or {})},
            timeout=120,
            errors="replace",
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    def look_script(self, **options) -> RemoteScript:
        return look_script(self.run_dir, self.key, self.places, timing=self.timing, **options)

    def look(self, **options) -> Look:
        script = self.look_script(**options)
        return read_look(script, self.run(script), self.places, self.timing)

    def submissions(self, look: Look | None = None, **changes) -> list[Submission]:
        given = []
        for place in self.places:
            item = Submission(place, (StagedFile("job.sh", JOB, 0o600),), resumable=True)
            if look is not None:
                item = replace(item, seen=look.chains[place.benchmark].seen, found=look.chains[place.benchmark].found)
            given.append(replace(item, **changes))
        return given

    def files(self) -> RunFiles:
        head = RecordHead("gym-job-x", "2026-01-31T08:05:09Z", "cluster", submitted_by="me")
        return RunFiles(self.run_dir, self.key, head, "a: 1\n", self.benchmarks)

    def submit(self, look: Look | None = None, *, changes: dict | None = None, **options) -> SubmitReport:
        given = self.submissions(look, **(changes or {}))
        script = submit_script(self.files(), given, timing=self.timing, **options)
        return read_submit(script, self.run(script), given, options.get("mounts", ()))

    def cancel(self, why: str = "asked", *, answer: bool = True, **options):
        script = cancel_script(self.places, why, timing=self.timing, **options)
        return read_cancel(script, self.run(script), self.places)

    def record(self) -> dict:
        return json.loads(Path(self.run_dir, "gym-job.json").read_text())

    def decisions(self, look: Look):
        return {name: decide(chain.history(), LIMITS) for name, chain in look.chains.items()}

    def age_intent(self, seconds: int = 60, benchmark: str | None = None) -> None:
        """Let time pass since a submission was cut off."""
        path = self.directory(benchmark) / ".gym_intent"
        if path.exists():
            written = path.stat().st_mtime
            at, rest = path.read_text().split(" ", 1)
            path.write_text(f"{int(at) - seconds} {rest}")
            age(path, written - seconds)
            lock = path.with_name(".gym_sbatch.lock")
            age(lock, lock.stat().st_mtime - seconds)


def at_once(calls: Sequence[Callable[[], Found]]) -> list[Found]:
    """What these return, called at the same time."""
    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(lambda call: call(), calls))


def age(path: Path, when: float) -> None:
    """As if it had been written then."""
    os.utime(path, (when, when))


def modes(root: Path) -> dict[str, int]:
    """Mode of every file and folder below `root`."""
    return {str(path.relative_to(root)): path.stat().st_mode & 0o777 for path in root.rglob("*")}


def text_of(root: Path) -> str:
    """Everything that any file below `root` holds."""
    return "\n".join(path.read_text(errors="replace") for path in root.rglob("*") if path.is_file())
