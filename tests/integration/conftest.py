"""A real Slurm and sshd for the tests of this folder, from the script that people use: docker/cluster.sh.

Without GYM_CLUSTER_DIR a private cluster is brought up once per session (per process under xdist) in a folder under
/tmp, and ended and removed afterwards. With it, that cluster is used (and brought up if need be) and left running:
right for writing tests, wrong for tests that break nodes while others look.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

REPO = Path(__file__).resolve().parents[2]
SCRIPT = REPO / "docker" / "cluster.sh"
STANDINS = REPO / "docker" / "standins"
CONN_ID = "gym_cluster"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slurm)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What test_crashes.py found, as a table."""
    rows: dict[str, list[int]] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if name == "crashes" and report.when == "call":
                    kind, *numbers = json.loads(value).values()
                    rows[kind] = [a + b for a, b in zip(rows.get(kind, [0] * 4), numbers, strict=True)]
    if not rows:
        return
    rows["in all"] = [sum(column) for column in zip(*rows.values(), strict=True)]
    if any(rows["in all"][1:3]) and (verdict := os.environ.get("GYM_TEST_VERDICT")):
        Path(verdict).touch()  # docker/test.sh: no second chance for this
    terminalreporter.section("exactly one job, whatever dies")
    width = max(map(len, rows))
    for name, numbers in {"kind of fault": ["kills", "duplicates", "lost", "orphans"], **rows}.items():
        terminalreporter.write_line(" | ".join([name.ljust(width), *(str(number).rjust(10) for number in numbers)]))


# Files whose tests one process runs one after the other: each of them takes both cores of a small machine.
ONE_AFTER_THE_OTHER = ("test_deployments_ray.py",)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Under --dist loadgroup: by file, since pytest-xdist 3.8 loses its `xdist_group` marks from pytest 9.2 on."""
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadGroupScheduling

    class Scheduling(LoadGroupScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0].rpartition("/")[2]
            return file if file in ONE_AFTER_THE_OTHER else super()._split_scope(nodeid)

    return Scheduling(config, log)


class Cluster:
    """The cluster's folder and environment, and short ways to ask it things."""

    account = "eval"

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.script("up", *options)
        lines = self.script("env").splitlines()
        self.exports = dict(shlex.split(line.removeprefix("export "))[0].split("=", 1) for line in lines)

    def script(self, command: str, *options: str) -> str:
        """docker/cluster.sh; its own words are the failure's."""
        words = ["bash", SCRIPT, command, *options, "--dir", self.folder]
        done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode:
            pytest.fail(f"docker/cluster.sh {command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def run(self, command: str, *, stdin: str | None = None, timeout: float = 60, check: bool = True) -> str:
        """A shell command on this machine, where Slurm's commands reach this cluster. Its standard output."""
        done = subprocess.run(
            ["bash", "-c", command],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            env=clean_environ() | self.exports,
            cwd=self.folder,  # where a job without --output leaves its own
            check=False,
        )
        if check and done.returncode:
            pytest.fail(f"{command!r} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def ssh(self, command: str, **options) -> str:
        """A shell command in a login over ssh."""
        exports = self.exports
        words = ["ssh", "-i", exports["GYM_SSH_KEY"], "-p", exports["GYM_SSH_PORT"]]
        words += ["-o", f"UserKnownHostsFile={exports['GYM_SSH_KNOWN_HOSTS']}", "-o", "BatchMode=yes"]
        words += [f"{exports['GYM_SSH_USER']}@{exports['GYM_SSH_HOST']}", command]
        return self.run(shlex.join(words), **options)

    def sbatch(self, script: str, *options: str) -> str:
        """Queue a job script (its first line may be left out) and return the job's id."""
        text = script if script.startswith("#!") else f"#!/bin/bash\n{script}\n"
        answer = self.run(shlex.join(["sbatch", "--parsable", f"--account={self.account}", *options]), stdin=text)
        return answer.strip().partition(";")[0]

    def state(self, job_id: str) -> str:
        """What squeue says, or else accounting; "" while neither knows the job."""
        queued = self.run(f"squeue -h -j {job_id} -o %T 2>/dev/null", check=False).strip()
        return queued or self.run(f"sacct -nPX -j {job_id} -o State").strip()

    def wait_for(self, job_id: str, *states: str, seconds: float = 60) -> str:
        """Until the job's state begins with one of the given words."""
        deadline = time.monotonic() + seconds
        while not (state := self.state(job_id)).startswith(states):
            if time.monotonic() > deadline:
                pytest.fail(f"job {job_id} is {state or 'unknown'} after {seconds} s, not {' or '.join(states)}")
            time.sleep(0.5)
        return state

    def jobs_named(self, name: str) -> list[str]:
        """The ids of all jobs with that name that accounting or the queue knows, oldest first."""
        known = self.run(f"sacct -nPX -S now-1days -o JobIDRaw --name {shlex.quote(name)}").split()
        queued = self.run(f"squeue -h -t all -o %A --name {shlex.quote(name)}").split()
        return sorted({*known, *queued}, key=int)


def clean_environ() -> dict[str, str]:
    """This process's environment without what would steer Slurm's commands."""
    prefixes = ("SLURM_", "SBATCH_", "SQUEUE_", "SACCT_", "SCANCEL_", "SINFO_", "SRUN_")
    return {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """The cluster of this session."""
    yield from brought_up("GYM_CLUSTER_DIR")


@pytest.fixture(scope="session")
def machines() -> Iterator[Cluster]:
    """Another cluster, whose nodes are machines of their own (network, processes). GYM_MACHINES_DIR keeps one."""
    yield from brought_up("GYM_MACHINES_DIR", "--separate-nodes")


def brought_up(variable: str, *options: str) -> Iterator[Cluster]:
    """The cluster in the folder that the variable names, or a private one that goes away with the session."""
    if given := os.environ.get(variable):
        yield Cluster(Path(given), *options)
        return
    # Not pytest's own folder: the paths of Unix sockets are short.
    folder = Path(tempfile.mkdtemp(prefix="gym-it-", dir="/tmp"))
    folder.chmod(0o755)
    try:
        found = Cluster(folder, *options)
        yield found
    finally:
        subprocess.run(["bash", SCRIPT, "down", "--dir", folder], check=False, timeout=120)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def mounts(cluster: Cluster) -> Iterator[Any]:
    """File systems that the test, the login node and the compute nodes see alike; see fakes/mounts.py."""
    from fakes.mounts import Mounts

    daemons = [path for path in (cluster.folder / "run").glob("*.process") if path.name.startswith(("sshd", "slurmd-"))]
    folder = Path(tempfile.mkdtemp(prefix="gym-fs-", dir="/tmp"))
    folder.chmod(0o755)
    made = Mounts(folder, [int(path.read_text().split()[0]) for path in daemons])
    yield made
    made.end()
    folder.rmdir()


@pytest.fixture
def cluster_environ(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The cluster's exports in this process: Slurm's commands work, and so does Airflow's connection `gym_cluster`."""
    for name in set(os.environ) - set(clean_environ()):
        monkeypatch.delenv(name)
    for name, value in cluster.exports.items():
        monkeypatch.setenv(name, value)
    return cluster.exports


@pytest.fixture
def connection(cluster: Cluster, monkeypatch: pytest.MonkeyPatch):
    """Changes Airflow's connection `gym_cluster` for this test: connection(key_file=None, slurm_bin="/opt/bin")."""

    def change(**extra: object) -> str:
        values = json.loads(cluster.exports["AIRFLOW_CONN_GYM_CLUSTER"])
        merged = values["extra"] | extra
        values["extra"] = {name: value for name, value in merged.items() if value is not None}
        monkeypatch.setenv("AIRFLOW_CONN_GYM_CLUSTER", json.dumps(values))
        return CONN_ID

    return change


@pytest.fixture
def ssh_hook(cluster_environ: dict[str, str]):
    """SlurmHook over ssh."""
    from airflow_gym_provider.hooks.slurm import SlurmHook

    return SlurmHook(ssh_conn_id=CONN_ID)


@pytest.fixture
def local_hook(cluster_environ: dict[str, str]):
    """SlurmHook on this machine."""
    from airflow_gym_provider.hooks.slurm import SlurmHook

    return SlurmHook()


@pytest.fixture(params=["ssh", "local"])
def hook(request: pytest.FixtureRequest):
    """SlurmHook, both ways: a test that takes it runs twice."""
    return request.getfixturevalue(f"{request.param}_hook")


@pytest.fixture
def standins(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The stand-ins for `vllm` and `gym` on this process's PATH. In jobs they are there anyway: see pyxis_standin.c."""
    monkeypatch.setenv("PATH", f"{STANDINS}{os.pathsep}{os.environ['PATH']}")
    return STANDINS


@pytest.fixture
def output_path(tmp_path: Path) -> str:
    """A folder for `job.output_path`; node and login are this machine, so the test reads it directly."""
    folder = tmp_path / "runs"
    folder.mkdir()
    return str(folder)


@pytest.fixture
def submit_config(output_path: str, unused_tcp_port: int) -> dict:
    """A small submit config for this cluster and the stand-ins, to be changed by the test: one node, one benchmark."""
    return {
        "services": {
            "policy": {
                "type": "vllm",
                "container": "vllm/vllm-openai:stand-in",
                "model": "stand-in/model",
                "port": unused_tcp_port,
            }
        },
        "compute": {
            "cluster": {"type": "slurm", "account": Cluster.account, "node_pools": {"main": {"partition": "debug"}}}
        },
        "driver": {
            "policy_model": "policy",
            "benchmarks": {"demo": {"run": {"config_paths": ["benchmarks/demo/config.yaml"], "limit": 5}}},
        },
        "job": {"output_path": output_path},
        "otel": {"enabled": False},
    }


@pytest.fixture
def unused_tcp_port() -> int:
    """A port that no listener of this machine has now, below those the kernel hands out."""
    import random
    import socket

    for port in random.sample(range(15000, 20000), 200):
        with socket.socket() as probe:
            try:
                probe.bind(("0.0.0.0", port))
            except OSError:
                continue
            return port
    pytest.fail("no free port between 15000 and 20000")


@pytest.fixture(scope="session")
def router_ray_image(machines: Cluster) -> str:
    """An image with the real `ray` and `vllm-router`. Installed on first use (a minute), and kept."""
    return install("real_router_ray.sh", "real-router-ray", machines)


def install(script: str, name: str, cluster: Cluster) -> str:
    """Run an installer of docker/ into the folder that docker/test.sh uses; the cluster then has its image `name`."""
    kept = Path(os.environ.get("GYM_TEST_DIR") or Path.home() / ".cache" / "airflow-gym-provider" / "test") / name
    words = ["bash", str(REPO / "docker" / script), str(kept)]
    environ = os.environ | {"GYM_CLUSTER_DIR": str(cluster.folder)}
    done = subprocess.run(words, capture_output=True, text=True, timeout=900, check=False, env=environ)
    if done.returncode:
        pytest.fail(f"docker/{script} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return name


@pytest.fixture
def deploy(machines: Cluster, tmp_path: Path):
    """Renders a config and submits it to the cluster of machines: deploy(config).succeeded(). See deploying.py."""
    from deploying import Deployer

    deployer = Deployer(machines, tmp_path)
    yield deployer
    deployer.end()
