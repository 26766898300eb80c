"""The hosts of docker/compose.yaml do what it says: the same commands, users, mounts and checks, without an engine."""

import json
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.containers import REPO, Hosts, hosts

CLUSTER = ("login", "n1", "n2", "n3", "n4")
DAGS = "/opt/gym/dags/nightly_benchmarks.yaml"


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    # Not pytest's own: that one is root's alone, and nobody here is root.
    made = Path(tempfile.mkdtemp(prefix="gym-hosts-", dir="/tmp"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="module")
def containers(folder: Path) -> Iterator[Hosts]:
    """All of the cluster's hosts, and one of Airflow's on which nothing runs yet."""
    subprocess.run(["bash", REPO / "docker" / "cluster.sh", "install"], check=True, timeout=600)
    with hosts(folder) as found:
        found.up(*CLUSTER)
        found.start("worker-1", "sleep", "infinity")
        yield found


def test_an_airflow_host_submits_over_ssh_and_a_compute_host_runs_the_job(containers):
    connections = json.loads(containers.execute("worker-1", "cat", "/cluster/client/connections.json").stdout)
    environ = {"AIRFLOW_CONN_GYM_CLUSTER": json.dumps(connections["gym_cluster"])}

    def gym(*words: str) -> str:
        return containers.execute("worker-1", "airflow", "gym", *words, "--conn-id", "gym_cluster", **environ).stdout

    gym("submit", DAGS, "--benchmark", "gpqa", "--name", "tonight")
    assert "rollouts 20 of 20" in gym("status", "/scratch/runs/tonight", "--watch")
    ran = containers.execute("login", "sacct", "-nPX", "-o", "State,NodeList,User").stdout.split()
    assert ran[-1] in [f"COMPLETED|n{number}|gym" for number in range(1, 5)]


def test_nobody_is_root_and_nobody_has_a_privilege(containers):
    for name in containers.running:
        # all but the first: that is the engine's
        all_of_them = "shopt -s nullglob; cat /proc/{[2-9],[1-9][0-9]*}/status"
        listed = containers.execute(name, "bash", "-c", all_of_them).stdout.splitlines()
        fields = [line.split()[:2] for line in listed if line.startswith(("Uid:", "CapPrm:", "CapBnd:", "NoNewPrivs:"))]
        assert {tuple(field) for field in fields} == {
            ("Uid:", "50000"), ("CapPrm:", "0" * 16), ("CapBnd:", "0" * 16), ("NoNewPrivs:", "1")
        }  # fmt: skip


def test_an_airflow_host_sees_of_the_cluster_the_key_to_log_in_and_nothing_else(containers):
    seen = containers.execute("worker-1", "find", "/cluster", "/scratch", "-type", "f", check=False).stdout.split()
    names = ("connections.json", "known_hosts", "user_key", "user_key.pub")
    assert sorted(seen) == [f"/cluster/client/{name}" for name in names]
    assert "Read-only" in containers.execute("worker-1", "touch", "/cluster/client/user_key", check=False).stderr
    assert "Read-only" in containers.execute("n1", "touch", "/cluster/etc/slurm.conf", check=False).stderr


def test_a_controller_that_is_started_again_goes_on_where_it_was(containers):
    def run_job() -> int:
        return int(containers.execute("login", "srun", "-Aeval", "printenv", "SLURM_JOB_ID").stdout)

    before = run_job()
    assert containers.stop("slurmctld") == 128 + 15
    containers.start("slurmctld")
    containers.wait_for("slurmctld")
    containers.wait_for("n1")
    assert run_job() == before + 1


def test_a_part_ends_with_the_munged_beside_it_so_that_both_are_started_again(containers):
    containers.execute("n4", "pkill", "-KILL", "munged")
    assert containers.running["n4"].wait(20) == 128 + 9
    containers.start("n4")
    containers.wait_for("n4")


@pytest.mark.soak
def test_all_hosts_of_the_compose_file_run_the_demo(folder):
    subprocess.run(["bash", REPO / "docker" / "airflow.sh", "install"], check=True, timeout=600)
    (folder / "all").mkdir()
    with hosts(folder / "all") as found:
        found.up(*found.services)
        shutil.copytree(REPO / "docker" / "demo", folder / "all" / "volumes" / "scratch" / "demo")
        told = found.execute("scheduler", "bash", "/opt/gym/docker/airflow.sh", "env").stdout
        environ = {name: value for name, value in map(exported, told.splitlines()) if name.startswith("GYM_AIRFLOW_")}
        words = ["python3", "-B", "/scratch/demo/watch.py", "nightly_benchmarks", "--resumes", "mmlu_pro"]
        assert "mean/reward" in found.execute("login", *words, **environ).stdout


def exported(line: str) -> tuple[str, str]:
    name, _, value = shlex.split(line.removeprefix("export "))[0].partition("=")
    return name, value
