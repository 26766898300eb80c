"""Installs the real programs for tests, and starts a DAG that uses them."""

from __future__ import annotations

import json
import os
import random
import shlex
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stack import DOCKER, Run, Stack, clean_environ

from airflow_gym_provider.config import SubmitConfig
from airflow_gym_provider.jobscript import render_job_script

DAGS = Path(__file__).parent / "real"
GYM_CONFIG = DOCKER / "real_gym" / "submit.yaml"
VLLM_CONFIG = DOCKER / "real_stack" / "policy.yaml"


def home() -> Path:
    """Where docker/test.sh keeps what it installs, so that nothing is installed twice."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("GYM_TEST_DIR") or f"{cache}/airflow-gym-provider/test")


def install(name: str, cluster: Mapping[str, str] | None = None) -> dict[str, str]:
    """docker/<name>.sh. It registers an image with the cluster of these exports, if given. Returns what it exports."""
    folder = home() / name.replace("_", "-")
    environ = {name: value for name, value in os.environ.items() if name != "GYM_CLUSTER_DIR"}
    if cluster is not None:
        environ["GYM_CLUSTER_DIR"] = cluster["GYM_CLUSTER_DIR"]
    lines = _output(["bash", str(DOCKER / f"{name}.sh"), str(folder)], environ).splitlines()
    exports = [line for line in lines if line.startswith("export REAL_")]
    return dict(shlex.split(line)[1].split("=", 1) for line in exports)


def free_ports(count: int) -> list[int]:
    """That many ports which nothing listens on, below those the kernel hands out by itself."""
    found: list[int] = []
    for port in random.sample(range(21000, 32000), 200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)):
                found.append(port)
        if len(found) == count:
            return found
    raise AssertionError(f"no {count} free ports")


def overrides(*more: str) -> list[str]:
    """For one task: ports of its own, since all nodes are one host, and `more`, where RUN is the benchmark's `run`."""
    policy_port, head_port = free_ports(2)
    words = [f"services.policy.port={policy_port}", f"RUN.head_server.port={head_port}", *more]
    return [word.replace("RUN", "driver.benchmarks.mcqa_small.run") for word in words]


def start(stack: Stack, dag_id: str, facts: Mapping[str, Any]) -> Run:
    """A run of tests/e2e/real/<dag_id>.py, which reads these facts from a file in the stack's folder."""
    (stack.folder / f"{dag_id}.json").write_text(json.dumps(facts))
    stack.add_dags(DAGS / f"{dag_id}.py")
    return stack.start([dag_id])[dag_id]


def rollouts(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows that the task's result points to."""
    return [json.loads(line) for line in Path(result["rollouts"]).read_text().splitlines()]


def keys(rows: list[dict[str, Any]]) -> set[tuple[int, int]]:
    """Which question, which repeat: each may occur once."""
    return {(row["_ng_task_index"], row["_ng_rollout_index"]) for row in rows}


class Machines:
    """A real Slurm whose nodes have a network and processes of their own, in a folder made for it. Needs root."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.chmod(0o755)
        self.exports: dict[str, str] = {}

    def up(self) -> None:
        """Start it."""
        self._script("up", "--separate-nodes")
        lines = self._script("env").splitlines()
        self.exports = dict(shlex.split(line.removeprefix("export "))[0].split("=", 1) for line in lines)

    def down(self) -> None:
        """End it; the folder stays."""
        self._script("down")

    def _script(self, command: str, *options: str) -> str:
        words = ["bash", str(DOCKER / "cluster.sh"), command, *options, "--dir", str(self.folder)]
        return _output(words, clean_environ())

    def log_of_driver(self, config: SubmitConfig, benchmark: str, seconds: int = 1200) -> str:
        """Run the job of a benchmark to its good end; what its driver printed."""
        folder = Path(tempfile.mkdtemp(prefix="job-", dir=self.folder))
        (folder / "job.sh").write_text(render_job_script(config, benchmark, str(folder)))
        words = ["timeout", str(seconds), "sbatch", "--wait", "--parsable", str(folder / "job.sh")]
        try:
            _output(words, clean_environ() | self.exports)
        except AssertionError as problem:
            logs = [*folder.glob("slurm-*.out"), *folder.glob("logs/*")]
            raise AssertionError("\n".join([str(problem), *map(_telling, logs)])) from None
        (log,) = folder.glob("logs/driver-*.log")
        return log.read_text()


def _telling(log: Path) -> str:
    """Of a long log what tells most: from its first error on, and its end."""
    text = log.read_text(errors="replace")
    begin = max(text.find("ERROR"), 0)
    return f"--- {log.name}\n{text[begin : begin + 3000]}\n[…]\n{text[-1000:]}"


def _output(words: list[str], environ: Mapping[str, str]) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=1800, env=environ, check=False)
    assert done.returncode == 0, f"{words} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    return done.stdout
