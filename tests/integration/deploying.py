"""For test_deployments*.py: a config becomes a script, the script a job on the real Slurm, and the job's traces facts.

The stand-ins for `vllm` and `gym` leave a note of every call (arguments, environment, node); what other programs did is
in their logs. Nothing here looks at the script's text.
"""

from __future__ import annotations

import copy
import json
import os
import shlex
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from conftest import STANDINS, Cluster

from airflow_gym_provider.config import SubmitConfig, SubmitConfigWarning, load_submit_config
from airflow_gym_provider.jobscript import render_job_script

BENCHMARK = "demo"


def a_config(services: dict[str, Any], pools: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """A submit config. Pools are numbers of nodes or mappings; `changes` are merged over the rest."""
    pools = {"main": 1} if pools is None else pools
    ready = {name: {"nodes": pool} if isinstance(pool, int) else pool for name, pool in pools.items()}
    base = {
        "services": services,
        "compute": {
            "cluster": {
                "type": "slurm",
                "account": Cluster.account,
                "walltime": "00:05:00",
                "node_pools": {name: {"partition": "debug", **pool} for name, pool in ready.items()},
            }
        },
        "driver": {
            "container": "gym/image:1",
            "policy_model": next(iter(services), None),
            "benchmarks": {BENCHMARK: {"run": {"config_paths": ["benchmarks/demo/config.yaml"], "limit": 3}}},
        },
        "job": {"output_path": "/nowhere"},
        "otel": {"enabled": False},
    }
    return merged(base, changes)


def merged(base: Any, changes: Any) -> Any:
    """Mappings are merged at every depth, anything else is replaced."""
    if not (isinstance(base, Mapping) and isinstance(changes, Mapping)):
        return copy.deepcopy(changes)
    return {**base, **{name: merged(base.get(name), value) for name, value in changes.items()}}


def vllm(**fields: Any) -> dict[str, Any]:
    """A vllm service of the stand-in."""
    return {"type": "vllm", "container": "vllm/image:1", "model": "org/model", **fields}


def benchmark(**fields: Any) -> dict[str, Any]:
    """The `driver` section's benchmarks with this one alone, to be merged into a config."""
    return {"benchmarks": {BENCHMARK: fields}}


@dataclass(frozen=True)
class Call:
    """One call of a stand-in."""

    tool: str
    argv: list[str]
    env: dict[str, str]
    node: str
    step: str
    cwd: str
    started_at: float

    def value(self, flag: str) -> str:
        """The word after `flag`, which must be given once."""
        assert self.argv.count(flag) == 1, self.argv
        return self.argv[self.argv.index(flag) + 1]

    def overrides(self) -> dict[str, str]:
        """gym's words of the form +name=value."""
        return dict(word.removeprefix("+").split("=", 1) for word in self.argv if word.startswith("+"))


class Job:
    """One submitted job and its folder."""

    def __init__(
        self, cluster: Cluster, config: SubmitConfig, folder: Path, environ: dict[str, str], job: dict
    ) -> None:
        self.cluster, self.config, self.folder = cluster, config, folder
        (folder / "records").mkdir(parents=True)
        script = folder / "job.sh"
        script.write_text(render_job_script(config, BENCHMARK, str(folder)), encoding="utf-8")
        script.chmod(0o600)
        self.environ = {**config.forwarded_environ(environ), **job}
        self.submit()

    def submit(self) -> None:
        """Queue the script, with a node of its own since jobs of other tests use the same ports."""
        names = shlex.join(f"{name}={value}" for name, value in self.environ.items())
        script = shlex.quote(str(self.folder / "job.sh"))
        self.id = self.cluster.run(f"env {names} sbatch --parsable --exclusive {script}").strip().partition(";")[0]

    def again(self) -> Job:
        """The next job of the chain: the same script once more. Notes of calls are the new job's alone."""
        other = copy.copy(self)
        other.__dict__.pop("exit_status", None)
        other.submit()
        return other

    def wait(self, seconds: float = 150) -> Job:
        """Until it has ended, however."""
        deadline = time.monotonic() + seconds
        while self.cluster.state(self.id).startswith(("PENDING", "RUNNING", "COMPLETING", "CONFIGURING")):
            if time.monotonic() > deadline:
                self.cluster.run(f"scancel {self.id}")
                pytest.fail(f"job {self.id} has not ended after {seconds} s:\n{self.everything()}")
            time.sleep(0.25)
        return self

    @cached_property
    def exit_status(self) -> int:
        """What accounting says of the batch script."""
        deadline = time.monotonic() + 10
        while not (code := self.cluster.run(f"sacct -nPX -j {self.id} -o State,ExitCode").strip()) or "RUNNING" in code:
            assert time.monotonic() < deadline, code
            time.sleep(0.2)
        return int(code.split("|")[1].split(":")[0])

    def succeeded(self) -> Job:
        """Wait, and expect status 0; everything that was logged if not."""
        if self.wait().exit_status:
            pytest.fail(f"job {self.id} ended with {self.exit_status}:\n{self.everything()}")
        return self

    def failed(self, status: int = 1) -> Job:
        """Wait, and expect this status."""
        if self.wait().exit_status != status:
            pytest.fail(f"job {self.id} ended with {self.exit_status}, not {status}:\n{self.everything()}")
        return self

    @property
    def ended_at(self) -> float:
        """When accounting saw its end, in seconds since 1970."""
        return float(self.cluster.run(f"SLURM_TIME_FORMAT=%s sacct -nPX -j {self.id} -o End"))

    @property
    def output(self) -> str:
        """What the batch script itself said."""
        return (self.folder / f"slurm-{self.id}.out").read_text()

    def log(self, name: str) -> str:
        """The log of a service, of the driver or of the collector."""
        return (self.folder / "logs" / f"{name}-{self.id}.log").read_text(errors="replace")

    def everything(self) -> str:
        """The ends of all logs, for a failure's text."""
        logs = [self.folder / f"slurm-{self.id}.out", *sorted((self.folder / "logs").glob("*"))]
        ends = (f"--- {log.name}\n{log.read_text(errors='replace')[-3000:]}" for log in logs if log.exists())
        return "\n".join(ends)

    def calls(self, tool: str) -> list[Call]:
        """All calls of a stand-in, in order of their start."""
        notes = (json.loads(path.read_text()) for path in (self.folder / "records").glob(f"{tool}-{self.id}-*.json"))
        calls = [Call(tool, n["argv"], n["env"], n["node"], n["step_id"], n["cwd"], n["started_at"]) for n in notes]
        return sorted(calls, key=lambda call: call.started_at)

    def call(self, tool: str) -> Call:
        """The only call of a stand-in."""
        (only,) = self.calls(tool)
        return only

    def rollouts(self) -> list[dict[str, Any]]:
        """The evaluation's results."""
        path = self.folder / "artifacts" / "rollouts.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def nodes(self) -> list[str]:
        """The allocation, in order."""
        return self.cluster.run(f"scontrol show hostnames $(sacct -nPX -j {self.id} -o NodeList)").split()


class Deployer:
    """Submits configs to one cluster; every job has a folder of its own."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster, self.folder, self.jobs = cluster, folder, []

    def __call__(self, config: dict[str, Any], environ: Mapping[str, str] | None = None, **job: str) -> Job:
        """Render with `environ` and queue; `job` are more variables of the job. The stand-ins record their calls."""
        folder = self.folder / f"job-{len(self.jobs)}" / BENCHMARK
        job["STANDIN_RECORD_DIR"] = f"{folder}/records"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SubmitConfigWarning)  # GPUs that idle are cheap here
            loaded = load_submit_config(copy.deepcopy(config), environ=environ or {})
        self.jobs.append(Job(self.cluster, loaded, folder, dict(environ or {}), job))
        return self.jobs[-1]

    def end(self) -> None:
        """End what still runs, so that the next test has the nodes for itself."""
        self.cluster.run(shlex.join(["scancel", *(job.id for job in self.jobs)]) if self.jobs else "true", check=False)


def make_image(cluster: Cluster, name: str, programs: Mapping[str, str | Path]) -> str:
    """A folder of commands that the cluster takes for the image `name`: a Path is linked, a text is a script."""
    folder = cluster.folder / "images" / name
    folder.mkdir(exist_ok=True)
    for program, content in programs.items():
        partial = folder / f".{program}.{os.getpid()}"
        if isinstance(content, Path):
            partial.symlink_to(content)
        else:
            partial.write_text(content)
            partial.chmod(0o755)
        partial.rename(folder / program)
    return name


def standin_script(tool: str, first: str = "") -> str:
    """A program that does something `first`, in bash, and then is the stand-in for `tool`."""
    return f'#!/bin/bash\n{first}\nexec {shlex.quote(str(STANDINS / tool))} "$@"\n'
