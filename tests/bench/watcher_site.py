"""What bench_watcher.py watches: jobs on a real Slurm, and a login node of its own with sshd's default limits."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import psutil

RUNNING = 20  # of all jobs; the others are held: they cost the machine nothing


class Site:
    """The jobs and the sshd; `end` takes them away."""

    def __init__(self, environ: Mapping[str, str], folder: Path) -> None:
        self.environ = dict(environ)
        self.folder = folder
        self.jobs: list[dict[str, str]] = []
        self.port = 0
        self._sshd: subprocess.Popen[bytes] | None = None

    # -- the login node -------------------------------------------------------------------------------------------

    def start_sshd(self, *, quick_shell: bool) -> None:
        """An sshd with the cluster's keys and no limits of its own: MaxStartups and MaxSessions are the defaults."""
        keys = Path(self.environ["GYM_CLUSTER_DIR"]) / "ssh"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        config = self.folder / "sshd_config"
        config.write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {keys}/host_key\n"
            f"AuthorizedKeysFile {keys}/authorized_keys\nPidFile none\nStrictModes no\nUsePAM no\nUseDNS no\n"
            "LogLevel VERBOSE\n"
            # with SHLVL bash leaves the account's start-up files alone
            f"SetEnv SLURM_CONF={self.environ['SLURM_CONF']}{' SHLVL=1' if quick_shell else ''}\n"
        )
        with (self.folder / "sshd.log").open("wb") as log:
            self._sshd = subprocess.Popen([str(shutil.which("sshd")), "-D", "-e", "-f", str(config)], stderr=log)
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.1)
        raise RuntimeError("sshd does not come up")

    def connection(self, interval: float) -> str:
        """Airflow's connection to it, as JSON."""
        given = json.loads(self.environ["AIRFLOW_CONN_GYM_CLUSTER"])
        extra = given["extra"] | {"poll_interval": interval}
        return json.dumps(given | {"port": self.port, "extra": extra})

    def ssh_options(self) -> dict[str, object]:
        """The same for asyncssh."""
        return {
            "host": "127.0.0.1",
            "port": self.port,
            "username": self.environ["GYM_SSH_USER"],
            "client_keys": [self.environ["GYM_SSH_KEY"]],
            "known_hosts": None,
        }

    def cpu(self) -> float:
        """Seconds of CPU of everything that ever ran under the sshd."""
        assert self._sshd is not None
        root = psutil.Process(self._sshd.pid)
        total = 0.0
        for process in [root, *root.children(recursive=True)]:
            try:
                times = process.cpu_times()
                total += times.user + times.system + times.children_user + times.children_system
            except psutil.Error:
                continue
        return total

    def counts(self) -> tuple[int, int, int]:
        """Logins, commands and dropped connections so far."""
        log = (self.folder / "sshd.log").read_text(errors="replace")
        return log.count("Accepted publickey"), log.count("Starting session"), log.count("drop connection")

    # -- the jobs -------------------------------------------------------------------------------------------------

    def submit(self, number: int) -> None:
        """As many more jobs as are missing: 20 that run and write rollouts, the rest held."""
        for index in range(len(self.jobs), number):
            folder = self.folder / f"job-{index}"
            folder.mkdir()
            rollouts = folder / "rollouts.jsonl"
            (folder / "rollouts_materialized_inputs.jsonl").write_text("{}\n" * 100_000)
            (folder / "stdout.log").write_text("")
            hold = [] if index < RUNNING else ["--hold"]
            script = f"#!/bin/bash\nexec >>{rollouts}\nwhile sleep 1; do echo '{{\"reward\": 1}}'; done\n"
            job_id = self._run(
                ["sbatch", "--parsable", "--account=eval", "--job-name=bench", "--output=/dev/null", *hold], script
            )
            self.jobs.append({"id": job_id.strip(), "folder": str(folder), "rollouts": str(rollouts)})
        while len(self._run(["squeue", "-h", "-t", "R", "-n", "bench"]).splitlines()) < min(number, RUNNING):
            time.sleep(1)

    def replace(self, ended: str) -> None:
        """A job that was ended gives its place to a new one."""
        index = next(index for index, job in enumerate(self.jobs) if job["id"] == ended)
        job = self.jobs[index]
        script = f"#!/bin/bash\nexec >>{job['rollouts']}\nwhile sleep 1; do echo '{{\"reward\": 1}}'; done\n"
        words = ["sbatch", "--parsable", "--account=eval", "--job-name=bench", "--output=/dev/null"]
        job["id"] = self._run(words, script).strip()
        Path(job["folder"], "exit_code").unlink(missing_ok=True)
        while self._run(["squeue", "-h", "-j", job["id"], "-o", "%T"]).strip() != "RUNNING":
            time.sleep(0.5)

    def end_job(self, job: Mapping[str, str]) -> float:
        """End a running job; the time at which Slurm had let go of it."""
        self._run(["scancel", job["id"]])
        while self._run(["squeue", "-h", "-j", job["id"], "-t", "R,CG", "-o", "%T"], check=False).strip():
            time.sleep(0.05)
        Path(job["folder"], "exit_code").write_text("0\n")
        return time.time()

    def _run(self, words: list[str], stdin: str | None = None, *, check: bool = True) -> str:
        done = subprocess.run(words, input=stdin, capture_output=True, text=True, env=self.environ, check=False)
        if check and done.returncode:
            raise RuntimeError(f"{words}: {done.stderr}")
        return done.stdout

    def end(self) -> None:
        """Cancel the jobs, stop the sshd."""
        self._run(["scancel", "--name=bench", "--user", self.environ["GYM_SSH_USER"]], check=False)
        if self._sshd is not None:
            for child in psutil.Process(self._sshd.pid).children(recursive=True):
                child.kill()
            self._sshd.kill()
            self._sshd.wait()


def environment(given: str | None) -> dict[str, str]:
    """The exports of docker/cluster.sh: of the cluster in the folder `given`, or of this shell."""
    if given is None:
        return dict(os.environ)
    script = Path(__file__).resolve().parents[2] / "docker" / "cluster.sh"
    text = f'eval "$(bash {script} env --dir {given})"; env -0'
    out = subprocess.run(["bash", "-c", text], capture_output=True, text=True, check=True).stdout
    return dict(pair.split("=", 1) for pair in out.split("\0") if "=" in pair)
