"""Places that cannot be written, are away or hang, and login nodes in a bad way: what a task does, and what it says.

Real file systems under a real Slurm, over the real sshd. There is never a second job, and when the trouble is over the
chain goes on.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from evaluating import Task
from fakes.mounts import Mounts

from airflow_gym_provider.hooks import way
from airflow_gym_provider.hooks.slurm import SlurmHook
from airflow_gym_provider.operators import _cluster
from airflow_gym_provider.slurm import alive, progress, status
from airflow_gym_provider.slurm.progress import Progress
from airflow_gym_provider.slurm.remote import RemoteScript
from airflow_gym_provider.slurm.status import JobRef
from airflow_gym_provider.triggers.observe import Observation
from airflow_gym_provider.triggers.watcher import Watcher

pytestmark = [pytest.mark.slurm, pytest.mark.slow]
AS_SOMEBODY_ELSE = "exec setpriv --reuid=65534 --regid=65534 --clear-groups bash -s"
MAKE_ROOM = "make room, or use another job.output_path"
Cure = Callable[[], object]


@pytest.fixture
def task(cluster, cluster_environ, monkeypatch) -> Iterator[Callable[..., Task]]:
    made: list[Task] = []

    def make(output: Path, **changes: Any) -> Task:
        made.append(Task(cluster, monkeypatch, output, **changes))
        return made[-1]

    yield make
    for each in made:
        each.end()


# -- before there is a job --------------------------------------------------------------------------------------------


def full(mounts: Mounts, _: Path) -> tuple[Path, Cure]:
    path = mounts.tmpfs("size=16k")
    (path / "data").write_bytes(b"x" * 8192)
    return path, lambda: mounts.remount(path, "size=1m")


def out_of_inodes(mounts: Mounts, _: Path) -> tuple[Path, Cure]:
    path = mounts.tmpfs("size=1m", "nr_inodes=5")
    return path, lambda: mounts.remount(path, "nr_inodes=100")


def read_only(mounts: Mounts, _: Path) -> tuple[Path, Cure]:
    path = mounts.tmpfs("size=1m")
    mounts.remount(path, "ro")
    return path, lambda: mounts.remount(path, "rw")


def a_file(_: Mounts, folder: Path) -> tuple[Path, Cure]:
    path = folder / "runs"
    path.write_text("notes")
    return path, path.unlink


def a_link_that_leads_nowhere(_: Mounts, folder: Path) -> tuple[Path, Cure]:
    path = folder / "runs"
    path.symlink_to(folder / "unmounted")
    return path, (folder / "unmounted").mkdir


def somebody_elses(mounts: Mounts, _: Path) -> tuple[Path, Cure]:
    path = mounts.tmpfs("size=1m", "mode=700")
    return path, lambda: None


PLACES = {
    full: ("No space left on device. That file system is full, in bytes or in files", MAKE_ROOM),
    out_of_inodes: ("No space left on device. That file system is full, in bytes or in files", MAKE_ROOM),
    read_only: ("Read-only file system. It is mounted read-only where the script ran", "another job.output_path"),
    a_file: ("Not a directory. Something there is no folder", "move it away"),
    a_link_that_leads_nowhere: ("File exists. Something there is no folder, or a link that leads nowhere",),
    somebody_elses: ("Permission denied. The account of the connection may not do that there", "give it the right to"),
}


@pytest.mark.row("`job.output_path` cannot be written (full, quota, no inodes, read-only, no right to)")
@pytest.mark.parametrize("make", PLACES, ids=lambda make: make.__name__)
def test_an_output_path_that_cannot_be_written_is_named_with_its_cure_and_tried_again(
    task, mounts: Mounts, tmp_path: Path, make: Callable[..., tuple[Path, Cure]]
):
    output, cure = make(mounts, tmp_path)
    evaluation = task(output)
    evaluation.before = AS_SOMEBODY_ELSE if make is somebody_elses else ""
    first = evaluation.start()
    assert (first.how, first.delay) == ("again", 15), first
    for words in (str(output), *PLACES[make]):
        assert words in first.reason
    assert "no. 1 of 5" in first.reason
    assert first.reason.startswith(evaluation.failure), "other tasks are told the same"
    assert not evaluation.jobs
    cure()
    evaluation.before = ""
    second = evaluation.start()
    assert (second.how, evaluation.jobs) == ("waits", [second.job_id]), second


def test_a_login_node_without_a_process_to_spare_is_said_to_be_that(task, mounts: Mounts):
    evaluation = task(mounts.tmpfs("size=1m"))
    evaluation.before = f"ulimit -u 0; {AS_SOMEBODY_ELSE}"
    first = evaluation.start()
    assert first.how == "again"
    assert "The login node has no process or memory to spare for this account" in first.reason
    assert not evaluation.jobs


# -- while there is a job ---------------------------------------------------------------------------------------------


def fill(mounts: Mounts, evaluation: Task) -> Cure:
    data = evaluation.run_dir.parent / "data"
    with pytest.raises(OSError, match="No space left"):
        data.write_bytes(b"x" * 2**20)
    return data.unlink


def make_read_only(mounts: Mounts, evaluation: Task) -> Cure:
    mounts.remount(evaluation.run_dir.parent, "ro")
    return lambda: mounts.remount(evaluation.run_dir.parent, "rw")


def remove(mounts: Mounts, evaluation: Task) -> Cure:
    shutil.rmtree(evaluation.run_dir)
    return lambda: None


@pytest.mark.parametrize("harm", [fill, make_read_only, remove], ids=lambda harm: harm.__name__)
def test_a_job_that_lives_is_waited_for_whatever_becomes_of_its_directory(task, mounts: Mounts, harm):
    evaluation = task(mounts.tmpfs("size=512k"))
    job_id = evaluation.start().job_id
    cure = harm(mounts, evaluation)
    assert [evaluation.start().job_id, evaluation.woken().job_id] == [job_id, job_id]
    cure()
    assert (evaluation.woken().job_id, evaluation.jobs) == (job_id, [job_id])
    assert (evaluation.job_dir / ".gym_job_chain").read_text() == f"{job_id}\n", "recorded, again if need be"


def test_a_job_that_could_not_be_recorded_is_waited_for_and_recorded_when_there_is_room(task, mounts: Mounts):
    output = mounts.tmpfs("size=28k")  # room for job.sh, two small files and the intent, not for the record
    evaluation = task(output)
    job_id = evaluation.start().job_id
    assert not (evaluation.job_dir / ".gym_job_chain").exists()
    assert [evaluation.start().job_id, evaluation.woken().job_id] == [job_id, job_id]
    mounts.remount(output, "size=1m")
    assert (evaluation.start().job_id, evaluation.jobs) == (job_id, [job_id])
    assert (evaluation.job_dir / ".gym_job_chain").read_text() == f"{job_id}\n"


def test_a_run_directory_that_may_not_be_read_any_more_leaves_its_job_alone(task, mounts: Mounts):
    evaluation = task(mounts.tmpfs("size=1m"))
    job_id = evaluation.start().job_id
    evaluation.run_dir.chmod(0o700)
    evaluation.before = AS_SOMEBODY_ELSE
    for end in (evaluation.start(), evaluation.woken()):
        assert end.how == "again"
        assert f"{evaluation.run_dir}/.gym_owner: Permission denied" in end.reason
    evaluation.before = ""
    assert (evaluation.start().job_id, evaluation.jobs) == (job_id, [job_id])


# -- when the job has ended -------------------------------------------------------------------------------------------


@pytest.mark.row("the driver dies of a full disk")
def test_a_driver_that_died_of_a_full_disk_is_told_with_the_reason(cluster, task, mounts: Mounts):
    output = mounts.tmpfs("size=256k")
    evaluation = task(output, command="head -c 1M /dev/zero >artifacts/rollouts.jsonl", extra={})
    cluster.wait_for(evaluation.start().job_id, "FAILED")
    end = evaluation.woken()
    assert end.how == "red"
    assert "FAILED 1:0" in end.reason
    assert f"{evaluation.job_dir} cannot be written: No space left on device." in end.reason
    assert MAKE_ROOM in end.reason


@pytest.mark.row("the run directory vanishes, or its file system is not mounted")
def test_a_directory_that_vanished_after_the_end_makes_no_second_job(cluster, task, mounts: Mounts):
    output = mounts.tmpfs("size=1m")
    evaluation = task(output, command="true", extra={})
    job_id = evaluation.start().job_id
    cluster.wait_for(job_id, "COMPLETED")
    place = evaluation.run_dir
    place.rename(output / "away")
    for end in (evaluation.woken(), evaluation.start()):
        assert end.how == "again"
        assert f"{evaluation.job_dir} is away, and with it what became of job {job_id}. Bring it back" in end.reason
    (output / "away").rename(place)
    assert (evaluation.start().how, evaluation.jobs) == ("green", [job_id])


@pytest.mark.row("the run directory vanishes, or its file system is not mounted")
def test_a_directory_that_is_gone_for_good_is_red_until_a_clear(cluster, task, mounts: Mounts):
    evaluation = task(mounts.tmpfs("size=1m"), command="exit 3", extra={})
    job_id = evaluation.start().job_id
    cluster.wait_for(job_id, "FAILED")
    shutil.rmtree(evaluation.run_dir)
    assert [evaluation.woken().how, *(evaluation.start().how for _ in range(4))] == ["again"] * 4 + ["red"]
    assert "clear the task: that starts anew" in evaluation.failure
    assert evaluation.jobs == [job_id]
    evaluation.clear()
    assert evaluation.start().how == "waits", "with a job of its own, as soon as squeue has forgotten the other"


@pytest.fixture
def finished(cluster, task, mounts: Mounts) -> Task:
    """A task whose job has ended well, with all its rollouts; the stand-in for gym has written them."""
    evaluation = task(mounts.tmpfs("size=1m"), run={"limit": 3}, extra={})
    cluster.wait_for(evaluation.start().job_id, "COMPLETED")
    return evaluation


def test_results_that_come_late_are_waited_for(finished: Task):
    place = finished.job_dir / "artifacts"
    place.rename(finished.run_dir / "late")
    timer = threading.Timer(1.5, lambda: (finished.run_dir / "late").rename(place))
    timer.start()
    end = finished.woken()
    timer.join()
    assert (end.how, end.result["rollouts_done"], len(finished.jobs)) == ("green", 3, 1), end


def test_results_that_may_not_be_read_are_not_taken_for_missing(finished: Task):
    (finished.job_dir / "artifacts").chmod(0o700)
    os.chown(finished.run_dir, 65534, 65534)
    finished.before = AS_SOMEBODY_ELSE
    end = finished.woken()
    assert (end.how, end.delay) == ("again", 15)
    assert f"{finished.job_dir}/artifacts/rollouts.jsonl is unreadable (Permission denied)" in end.reason
    assert "no retry counted" in end.reason
    finished.before = ""
    os.chown(finished.run_dir, os.geteuid(), os.getegid())
    assert finished.start().how == "green"


def test_results_on_a_full_disk_are_green_and_summarised(finished: Task, mounts: Mounts):
    fill(mounts, finished)
    end = finished.woken()
    assert (end.how, end.result["rollouts_done"]) == ("green", 3)
    assert end.result["summary"]["rollouts"] == 3
    assert not list((finished.job_dir / "artifacts").glob("*.tsv*")), "nothing half-written is left"


# -- a login node in a bad way ----------------------------------------------------------------------------------------

READ_ONLY = "mount --rbind {0} {0} && mount -o remount,bind,ro {0}"
NODES = {
    "nowhere to put a temporary file": "exec unshare --mount --propagation private bash -s\n"
    + "\n".join(READ_ONLY.format(folder) for folder in ("/tmp", "/var/tmp"))
    # before 5.1 bash wrote every here-document to a file
    + "\nexport TMPDIR=/none BASH_COMPAT=5.0; cd /proc; ! : 2>/dev/null <<<x || exit 9",
    "no home": "export HOME=/none; cd /",
    "no HOME at all": "unset HOME",
    "a working directory that is gone": "mkdir /tmp/gone.$$ && cd /tmp/gone.$$ && rmdir /tmp/gone.$$",
}


@pytest.mark.parametrize("before", NODES.values(), ids=NODES)
def test_a_login_node_without_tmp_home_or_working_directory_queues_the_job_all_the_same(
    task, connection, mounts: Mounts, before: str
):
    connection(login_profile=True)  # start-up files and PATH are what is read there
    evaluation = task(mounts.tmpfs("size=1m"))
    evaluation.before = before
    end = evaluation.start()
    assert (end.how, evaluation.jobs) == ("waits", [end.job_id]), end


# -- login nodes that accept and never answer -------------------------------------------------------------------------


class Listener:
    """A port that accepts connections and says `banner` to each, and no more."""

    def __init__(self, banner: bytes) -> None:
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.server.getsockname()[1]
        self.banner, self.kept = banner, []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                self.kept.append(self.server.accept()[0])
                self.kept[-1].sendall(self.banner)

    def close(self) -> None:
        for each in [self.server, *self.kept]:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


async def seen(job_id: str, so_far: Callable[[Observation], object] = bool, **options: Any) -> Observation:
    """What a task that waits in the triggerer is told, at the first look of which that is true."""
    watcher = Watcher(SlurmHook("gym_cluster"))
    with watcher.subscribe([JobRef(job_id)], 1, **options) as subscription:
        while (look := await asyncio.wait_for(subscription.next(60), 60)) is None or not so_far(look):
            pass
    watcher._loop_task.cancel()  # it would linger for a minute
    await watcher._hook.aclose()
    return look


SILENT = {"nothing at all": b"", "a banner and no more": b"SSH-2.0-OpenSSH_9.2\r\n"}


@pytest.mark.row("the login node accepts and never answers")
@pytest.mark.parametrize("banner", SILENT.values(), ids=SILENT)
async def test_a_login_node_that_accepts_and_never_answers_is_given_up_in_bounded_time_and_tried_again(
    cluster, task, connection, monkeypatch, tmp_path: Path, banner: bytes
):
    listener = Listener(banner)
    values = json.loads(cluster.exports["AIRFLOW_CONN_GYM_CLUSTER"])
    values |= {"port": listener.port, "extra": values["extra"] | {"conn_timeout": 0.5, "poll_interval": 1}}
    evaluation = task(tmp_path)
    monkeypatch.setenv("AIRFLOW_CONN_GYM_CLUSTER", json.dumps(values))
    monkeypatch.setattr("airflow_gym_provider.hooks.slurm.time.sleep", lambda _: None)  # between two of three attempts
    began = time.monotonic()
    end = await asyncio.to_thread(evaluation.start)
    look = await seen("1")
    assert time.monotonic() - began < 30
    assert (end.how, end.delay) == ("again", 15)
    for said in (end.reason, *look.problems):
        assert f"127.0.0.1:{listener.port} (connection 'gym_cluster'): cannot connect" in said
    assert look.fatal is None
    listener.close()
    monkeypatch.setenv("AIRFLOW_CONN_GYM_CLUSTER", cluster.exports["AIRFLOW_CONN_GYM_CLUSTER"])
    assert (await asyncio.to_thread(evaluation.start)).how == "waits"


# exec: what nobody waits for any more ends when its session does, or is ended by the test
HANGING = {
    "a command that never ends": "echo $$ >{folder}/pid; exec sleep 1000",
    "one byte a second": "while :; do printf x; sleep 1; done",
}


@pytest.mark.parametrize("before", HANGING.values(), ids=HANGING)
def test_a_login_node_that_never_comes_to_an_end_is_given_up_and_asked_again(
    task, monkeypatch, mounts: Mounts, tmp_path: Path, before: str
):
    evaluation = task(mounts.tmpfs("size=1m"))
    evaluation.before = before.format(folder=tmp_path)
    with monkeypatch.context() as short:
        short.setattr(_cluster, "LOOK_TIMEOUT", 1.5)
        end = evaluation.start()
    assert (end.how, end.delay) == ("again", 15)
    assert "no complete answer within 1.5 s. Does a file system hang there, or Slurm?" in end.reason
    for left in tmp_path.glob("pid"):
        os.kill(int(left.read_text()), signal.SIGKILL)
    evaluation.before = ""
    assert evaluation.start().how == "waits"


def sessions(cluster) -> set[int]:
    """The processes of sshd's that serve one login each."""
    listening = (cluster.folder / "run" / "sshd.process").read_text().split()[0]
    found = set()
    for folder in Path("/proc").iterdir():
        with suppress(OSError, IndexError, ValueError):
            if folder.name.isdecimal() and (folder / "stat").read_text().rpartition(")")[2].split()[1] == listening:
                found.add(int(folder.name))
    return found


async def test_a_connection_that_dies_in_silence_is_noticed_and_opened_again(cluster, ssh_hook, monkeypatch):
    monkeypatch.setattr(way, "_KEEPALIVE_SECONDS", 0.5)
    before = sessions(cluster)
    answer = await ssh_hook.arun(RemoteScript.build("frame x\necho $PPID", needs=()), 20)
    (mine,) = {int(line) for line in answer.stdout.split() if line.isdecimal()} & sessions(cluster) - before
    os.kill(mine, signal.SIGSTOP)
    try:
        began = time.monotonic()
        # no keepalive comes back, so that this is a new connection by then
        script = RemoteScript.build("frame x\necho $PPID", needs=())
        again = await ssh_hook.arun(script, 20)
        assert time.monotonic() - began < 10
        assert f"{mine}\n" not in again.stdout
    finally:
        os.kill(mine, signal.SIGCONT)
        await ssh_hook.aclose()


@pytest.fixture
def job(cluster) -> Iterator[str]:
    """A job that runs."""
    job_id = cluster.sbatch("sleep 600", "--output=/dev/null")
    cluster.wait_for(job_id, "RUNNING")
    yield job_id
    cluster.run(f"scancel {job_id}")


def hanging(folder: Path, tool: str) -> str:
    """A folder for slurm_bin: the tool in it never comes back, whatever signal but one it gets."""
    path = folder / tool
    path.write_text("#!/bin/bash\ntrap '' TERM\nexec -a \"$0\" sleep 1000\n")
    path.chmod(0o755)
    for name in ("sbatch", "squeue", "sacct", "scancel"):
        if name != tool:
            (folder / name).symlink_to(shutil.which(name) or name)
    return str(folder)


@pytest.mark.row("a file system hangs on the login node")
async def test_a_file_system_that_hangs_keeps_no_job_from_being_watched(
    cluster, cluster_environ, connection, monkeypatch, tmp_path: Path, job: str
):
    monkeypatch.setattr(progress, "FILE_SECONDS", 1)
    rollouts = tmp_path / "rollouts.jsonl"
    rollouts.write_text("{}\n")
    connection(slurm_bin=hanging(tmp_path, "dd"), poll_interval=1)
    states: dict[str, str] = {}

    def late(look: Observation) -> str:
        states.update({key: status.state for key, status in look.statuses.items()})
        return look.late

    look = await seen(job, late, progress={job: Progress(str(rollouts))})
    assert "a file system hangs on the login node" in look.late
    assert (states, look.problems) == ({job: "RUNNING"}, ())
    assert not running(str(tmp_path / "dd")), "what hung has been killed"


async def test_an_squeue_that_never_ends_is_an_outage_and_no_end_of_the_job(
    cluster, cluster_environ, connection, monkeypatch, tmp_path: Path, job: str
):
    monkeypatch.setattr(alive, "TOOL_SECONDS", 1)
    monkeypatch.setattr(status, "TOOL_SECONDS", 1)
    connection(slurm_bin=hanging(tmp_path, "squeue"), poll_interval=1)
    look = await seen(job)
    assert "squeue: no answer in time" in look.problems
    assert job not in look.statuses or not look.statuses[job].ending


def running(program: str) -> list[str]:
    found = []
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            if folder.name.isdecimal() and program.encode() in (folder / "cmdline").read_bytes().split(b"\0"):
                found.append(folder.name)
    return found
