"""Waiting on the real Slurm over a real sshd: one connection for many tasks, a server that allows one session, and what
ends while nobody answers.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Cluster

from airflow_gym_provider.hooks.slurm import SlurmHook
from airflow_gym_provider.slurm.remote import RemoteScript
from airflow_gym_provider.triggers.slurm import SlurmJobTrigger
from airflow_gym_provider.triggers.watcher import watcher_for


class Login:
    """An sshd of the test's own before the cluster: it can be stopped, and allows what the test says."""

    def __init__(self, cluster: Cluster, folder: Path, *lines: str) -> None:
        keys = cluster.folder / "ssh"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.log = folder / "sshd.log"
        self._config = folder / "sshd_config"
        self._config.write_text(
            "\n".join(
                [
                    f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {keys}/host_key",
                    f"AuthorizedKeysFile {keys}/authorized_keys\nPidFile none\nStrictModes no\nUsePAM no\nUseDNS no",
                    f"LogLevel VERBOSE\nSetEnv SLURM_CONF={cluster.exports['SLURM_CONF']}",
                    *lines,
                    "",
                ]
            )
        )
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            words = [str(shutil.which("sshd")), "-D", "-e", "-f", str(self._config)]
            self._process = subprocess.Popen(words, stderr=log, start_new_session=True)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.1)
        pytest.fail(self.log.read_text())

    def stop(self) -> None:
        """The listener and every session of it."""
        if self._process is not None:
            import psutil

            for child in psutil.Process(self._process.pid).children(recursive=True):
                child.kill()
            self._process.kill()
            self._process.wait()
            self._process = None

    def logins(self) -> int:
        return self.log.read_text(errors="replace").count("Accepted publickey")

    def shells(self) -> int:
        return self.log.read_text(errors="replace").count("Starting session")


@pytest.fixture
def login(cluster: Cluster, cluster_environ, tmp_path: Path, monkeypatch) -> Iterator:
    """login(lines...): such an sshd, running, and Airflow's connections `a` and `b` to it, looked at every second."""
    made: list[Login] = []

    def start(*lines: str) -> Login:
        login = Login(cluster, tmp_path, *lines)
        made.append(login)
        login.start()
        values = json.loads(cluster.exports["AIRFLOW_CONN_GYM_CLUSTER"])
        values |= {"port": login.port, "extra": values["extra"] | {"poll_interval": 1, "conn_timeout": 5}}
        for name in ("A", "B"):
            monkeypatch.setenv(f"AIRFLOW_CONN_{name}", json.dumps(values))
        return login

    yield start
    for each in made:
        each.stop()


async def first(trigger: SlurmJobTrigger) -> dict:
    async for event in trigger.run():
        return event.payload
    raise AssertionError("no event")


def sleeper(cluster: Cluster, seconds: float, *options: str, status: int = 0) -> str:
    return cluster.sbatch(f"sleep {seconds}; exit {status}", "--output=/dev/null", "--job-name=watched", *options)


async def test_many_tasks_under_two_connection_ids_are_one_login_and_one_call_each_second(cluster, login) -> None:
    node = login()
    jobs = [sleeper(cluster, 0, "--hold") for _ in range(30)]
    jobs.append(sleeper(cluster, 3, status=3))
    try:
        triggers = [SlurmJobTrigger([job], ssh_conn_id="ab"[n % 2], poll_interval=1) for n, job in enumerate(jobs)]
        tasks = [asyncio.create_task(first(trigger)) for trigger in triggers]
        event = await asyncio.wait_for(tasks[-1], 120)
        assert (event["jobs"][0]["ending"], event["jobs"][0]["exit_code"]) == ("FAILED", 3)
        cluster.run(f"scancel {' '.join(jobs[:-1])}")
        events = await asyncio.wait_for(asyncio.gather(*tasks[:-1]), 120)
        assert {event["jobs"][0]["ending"] for event in events} == {"CANCELLED"}
        assert (node.logins(), node.shells()) == (1, 1)
    finally:
        cluster.run(f"scancel {' '.join(jobs)}", check=False)


async def test_a_server_that_allows_one_session_serves_status_calls_and_kills(cluster, login) -> None:
    node = login("MaxSessions 1")
    job = sleeper(cluster, 600)
    try:
        waiting = asyncio.create_task(first(SlurmJobTrigger([job], ssh_conn_id="a", poll_interval=1)))
        await asyncio.sleep(3)
        watcher = watcher_for("a", None)
        scripts = [RemoteScript.build(f"sleep 0.5; frame n {n}", needs=()) for n in range(6)]
        answers = await asyncio.wait_for(asyncio.gather(*(watcher.run(each, 30) for each in scripts)), 120)
        said = [each.frames(answer.stdout)[0].args for each, answer in zip(scripts, answers, strict=True)]
        assert said == [(str(n),) for n in range(6)]
        cluster.run(f"scancel {job}")
        assert (await asyncio.wait_for(waiting, 120))["jobs"][0]["ending"] == "CANCELLED"
        assert node.logins() == 1
    finally:
        cluster.run(f"scancel {job}", check=False)


async def test_what_ends_while_the_login_node_is_away_is_reported_when_it_is_back(cluster, login) -> None:
    node = login()
    jobs = {
        "COMPLETED": sleeper(cluster, 4),
        "FAILED": sleeper(cluster, 4, status=7),
        "CANCELLED": sleeper(cluster, 600),
        "alive": sleeper(cluster, 600),
    }
    try:
        tasks = {
            how: asyncio.create_task(first(SlurmJobTrigger([job], ssh_conn_id="a", poll_interval=1)))
            for how, job in jobs.items()
        }
        await asyncio.sleep(3)
        await asyncio.to_thread(node.stop)
        cluster.run(f"scancel {jobs['CANCELLED']}")
        for how in ("COMPLETED", "FAILED", "CANCELLED"):
            await asyncio.to_thread(cluster.wait_for, jobs[how], how)
        assert not any(task.done() for task in tasks.values())
        await asyncio.to_thread(node.start)
        for how in ("COMPLETED", "FAILED", "CANCELLED"):
            event = await asyncio.wait_for(tasks[how], 180)
            assert (event["reason"], event["jobs"][0]["ending"]) == ("ended", how)
        assert not tasks["alive"].done()
        tasks["alive"].cancel()
    finally:
        cluster.run(f"scancel {' '.join(jobs.values())}", check=False)


async def test_new_lines_of_a_log_come_while_the_job_runs_and_its_secret_does_not(cluster, login, tmp_path) -> None:
    import logging

    from airflow_gym_provider.slurm.tails import hidden_line

    login()
    (tmp_path / "logs").mkdir()
    (tmp_path / "job.sh").write_text(f"exit 0\n{hidden_line(['s3cr3t-token'])}")
    script = "log=logs/driver-$SLURM_JOB_ID.log; echo line 1 s3cr3t-token >$log; until [ -e go ]; do sleep 0.5; done; "
    script += "echo line 2 s3cr3t-token >>$log"
    job = cluster.sbatch(script, "--output=/dev/null", f"--chdir={tmp_path}")
    trigger = SlurmJobTrigger([job], ssh_conn_id="a", poll_interval=1, job_dir=str(tmp_path), follow_log=True)
    said: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())
            if "line 1" in said[-1]:
                (tmp_path / "go").touch()

    log = logging.Logger("trigger")
    log.addHandler(Listener())
    type(trigger).log = log  # Airflow's own property
    try:
        assert (await asyncio.wait_for(first(trigger), 120))["jobs"][0]["ending"] == "COMPLETED"
    finally:
        del type(trigger).log
    text = "\n".join(said)
    assert ["line 1 ***" in text, "line 2 ***" in text] == [True, True]
    assert "s3cr3t" not in text


def test_a_hook_asks_over_one_session_at_a_time_when_that_is_all_there_is(cluster, login) -> None:
    login("MaxSessions 1")
    with SlurmHook("a") as hook:
        script = RemoteScript.build("framed squeue 0 30 squeue --version", needs=("squeue",))
        assert "slurm" in hook.run(script).stdout
