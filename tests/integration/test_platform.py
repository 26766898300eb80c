"""The Test button and the command line against a real Slurm, over a real sshd."""

import json
import os
import subprocess
import sys
import time

import pytest

from airflow_gym_provider.hooks.slurm import SlurmHook
from tests.integration.conftest import CONN_ID

CONFIG = """\
services: {{}}
compute:
  cluster: {{type: slurm, walltime: "00:10:00", node_pools: {{main: {{nodes: 1}}}}}}
driver:
  container: any/image:1
  benchmarks:
    first: {{command: "sleep {seconds}"}}
    second: {{command: "sleep 300"}}
otel: {{enabled: false}}
"""


@pytest.fixture
def gym(cluster, connection, tmp_path):
    """`airflow gym …` as a process of its own, without a database; the connection says account, partition and path."""
    connection(account=cluster.account, partition="debug", output_path=str(tmp_path / "evals"))
    environ = os.environ | {
        "AIRFLOW_HOME": str(tmp_path / "home"),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "sqlite:////nonexistent/none.db",
    }

    def run(*words):
        command = [sys.executable, "-m", "airflow", "gym", *map(str, words), "--conn-id", CONN_ID, "--json"]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=180, check=False)
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)

    return run


@pytest.mark.usefixtures("cluster")
def test_the_button_finds_everything(connection, cluster, tmp_path):
    connection(account=cluster.account, partition="debug", output_path=str(tmp_path / "evals"))
    found, text = SlurmHook(CONN_ID).test_connection()
    assert found, text
    assert "accounting answers; partition debug; account eval" in text


@pytest.mark.usefixtures("cluster")
def test_the_button_says_what_is_not_there(connection):
    connection(account="nobody", partition="nowhere")
    found, text = SlurmHook(CONN_ID).test_connection()
    assert not found
    assert "partition 'nowhere' is not there; there are debug" in text
    assert "account 'nobody' is not one of this user's; these are eval" in text


def test_a_run_from_a_shell(gym, cluster, tmp_path):
    """Queued twice under one name it is there once; it is found by its directory and by its jobs' ids; it ends."""
    path = tmp_path / "submit.yaml"
    path.write_text(CONFIG.format(seconds=1))
    status, record = gym("submit", path, "--name", "tonight")
    assert status == 0, record
    assert gym("submit", path, "--name", "tonight")[1]["benchmarks"] == record["benchmarks"]
    ids = {entry["benchmark"]: entry["job_id"] for entry in record["benchmarks"]}
    assert record["run_dir"] == f"{tmp_path}/evals/tonight"
    cluster.wait_for(ids["first"], "COMPLETED")

    status, second = gym("status", ids["second"])
    assert (status, [row["benchmark"] for row in second["benchmarks"]]) == (0, ["second"])
    assert second["run_dir"] == record["run_dir"]

    status, cancelled = gym("cancel", record["run_dir"])
    assert status == 0, cancelled
    rows = {row["benchmark"]: row for row in cancelled["benchmarks"]}
    assert (rows["first"]["ended"], rows["second"]["cancelled"]) == ([ids["first"]], [ids["second"]])
    cluster.wait_for(ids["second"], "CANCELLED")

    states = wait_for_states(gym, record["run_dir"], "unknown")
    assert states == {"first": "complete", "second": "stopped"}
    assert len(cluster.jobs_named(cluster.run(f"sacct -nPX -j {ids['first']} -o JobName").strip())) == 1


def wait_for_states(gym, run_dir, passing, seconds=60):
    """The benchmarks' states, once accounting has caught up."""
    deadline = time.monotonic() + seconds
    while True:
        states = {row["benchmark"]: row["state"] for row in gym("status", run_dir)[1]["benchmarks"]}
        if passing not in states.values() or time.monotonic() > deadline:
            return states
        time.sleep(2)
