"""A real Slurm with sshd and a real Airflow in one folder, and what the tests ask of them."""

from __future__ import annotations

import json
import os
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.parse import quote

REPO = Path(__file__).resolve().parents[2]
DOCKER = REPO / "docker"
sys.path.insert(0, str(DOCKER / "demo"))

import asyncssh  # noqa: E402
from airflow_api import AirflowApi  # noqa: E402

UNDONE = (None, "scheduled", "queued", "running", "deferred", "restarting", "up_for_retry", "up_for_reschedule")
# {} is another word each time.
SECRETS = {
    "E2E_HOST_SECRET": 'canary-{}\nit\'s a "line", canary-{} $x `y` \\\n',
    "E2E_FORWARDED_SECRET": "canary-{}'\"&= %",
    "AIRFLOW_VAR_E2E_ARGUMENT_SECRET": "canary-{}",
    "E2E_CONN_PASSWORD": "canary-{}",
    "E2E_CONN_PASSPHRASE": "canary-{}",
}
SETTINGS = {
    # A user who may look at everything, and one who is known and may do nothing; for the pages' tests.
    "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin,reader:viewer,nobody:",
    "AIRFLOW__CORE__PARALLELISM": "12",
    # DAG files are parsed once, and new ones are found soon.
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
    "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "10",
    # A killed triggerer's triggers move to the next one after this.
    "AIRFLOW__TRIGGERER__JOB_HEARTBEAT_SEC": "3",
    "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "15",
    # So does what a killed scheduler had running, and what a killed worker had.
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "20",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "5",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "120",
}


def wait_until(what: str, seconds: float, ask: Callable[[], Any], every: float = 1.0, say: Callable = str) -> Any:
    """What `ask` answers once it is true; fails with `say()`'s words after the deadline."""
    deadline = time.monotonic() + seconds
    while not (answer := ask()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds:g} s. {say()}")
        time.sleep(every)
    return answer


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def clean_environ() -> dict[str, str]:
    """This process's environment without what would steer Slurm's commands or another Airflow."""
    steering = ("SLURM_", "SBATCH_", "SQUEUE_", "SACCT_", "SCANCEL_", "SINFO_", "SRUN_", "AIRFLOW_")
    return {name: value for name, value in os.environ.items() if not name.startswith(steering)}


def process_stat(pid: int) -> tuple[str, int]:
    """State (a letter) and parent of a process; of one that is gone, those of a dead one: "X" and 0."""
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except (FileNotFoundError, ProcessLookupError):
        return "X", 0
    return state, int(parent)


class Job(NamedTuple):
    """One row of Slurm's accounting. Times are ISO text without zone, or "Unknown"."""

    job_id: str
    name: str
    state: str
    start: str
    end: str
    elapsed: int
    folder: str


class Stack:
    """Both of them, in `folder`, which is made and filled here. `up` and `down` may be called at any time."""

    parts: Sequence[str] = ("scheduler", "triggerer", "dag-processor", "api-server")
    """The processes of Airflow that may be killed."""
    shape: Sequence[str] = ()
    """More words for `docker/airflow.sh up`."""
    settings: Mapping[str, str] = SETTINGS

    def __init__(self, folder: Path, dags: Sequence[Path]) -> None:
        self.folder = folder
        self.dags, self.runs, self.gates = folder / "dags", folder / "runs", folder / "gates"
        self.home = folder / "airflow"
        for part in (folder, self.dags, self.runs, self.gates, folder / "kills"):
            part.mkdir(exist_ok=True)
            part.chmod(0o755)
        for path in dags:
            shutil.copy(path, self.dags)
        self.secrets = self._make_secrets()
        self.cluster: dict[str, str] = {}
        self.api: Any = None

    def _make_secrets(self) -> dict[str, str]:
        path = self.folder / "secrets.json"
        if not path.exists():
            made = {name: text.replace("{}", secrets.token_hex(12)) for name, text in SECRETS.items()}
            for name in ("E2E_USER_KEY", "E2E_STRANGERS_KEY"):
                key = asyncssh.generate_private_key("ssh-ed25519")
                made[name] = key.export_private_key(passphrase=made["E2E_CONN_PASSPHRASE"], rounds=1).decode()
            path.write_text(json.dumps(made))
        return json.loads(path.read_text())

    # -- bringing up and down -------------------------------------------------------------------------------------

    def up_cluster(self) -> None:
        """Start what does not run of Slurm; docker/cluster.sh does it."""
        if not self.cluster:
            self._script("cluster.sh", "up", "cluster")
            self.cluster = self._environment("cluster.sh", "cluster")
            self._let_in()

    def up(self) -> None:
        """Start what does not run of both; docker/airflow.sh does it."""
        self.up_cluster()
        words = [word for name, value in self.settings.items() for word in ("--set", f"{name}={value}")]
        self._script(
            "airflow.sh", "up", "airflow", "--dags", self.dags, "--python", sys.executable, *self.shape, *words
        )
        found = self._environment("airflow.sh", "airflow")
        self.api = AirflowApi(found["GYM_AIRFLOW_URL"], found["GYM_AIRFLOW_USER"], found["GYM_AIRFLOW_PASSWORD"])

    def down(self) -> None:
        """End both; the folder stays."""
        for script, part in (("airflow.sh", "airflow"), ("cluster.sh", "cluster")):
            self._script(script, "down", part)

    def down_airflow(self) -> None:
        """End Airflow as an operator would, who asks first."""
        self._script("airflow.sh", "down", "airflow")

    def _script(self, script: str, command: str, part: str, *options: str | Path) -> str:
        words = ["bash", DOCKER / script, command, "--dir", self.folder / part, *options]
        done = subprocess.run(words, capture_output=True, text=True, timeout=900, env=self.environ(), check=False)
        assert done.returncode == 0, f"{script} {command} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        return done.stdout

    def _environment(self, script: str, part: str) -> dict[str, str]:
        lines = self._script(script, "env", part).splitlines()
        return dict(shlex.split(line.removeprefix("export "))[0].split("=", 1) for line in lines)

    def environ(self) -> dict[str, str]:
        """What Airflow's processes and Slurm's commands see."""
        mine = {
            "PYTHONPATH": os.pathsep.join([str(REPO), *filter(None, [os.environ.get("PYTHONPATH")])]),
            "GYM_OUTPUT_PATH": str(self.runs),
            "GYM_E2E_FOLDER": str(self.folder),
            "AIRFLOW_CONN_E2E_HF": json.dumps({"conn_type": "generic", "password": self.secrets["E2E_HOST_SECRET"]}),
        }
        return clean_environ() | mine | self.secrets | self.cluster | self._more_connections()

    def _more_connections(self) -> dict[str, str]:
        """`gym_<name>`: as gym_cluster, with the commands of the folder tests/e2e/slurm_<name> before Slurm's own.
        `gym_watched` has its key in itself. `e2e_no_login` is refused, and nobody answers at `e2e_hook`.
        """
        if not self.cluster:
            return {}
        found = {}
        for folder in sorted(Path(__file__).parent.glob("slurm_*")):
            values = json.loads(self.cluster["AIRFLOW_CONN_GYM_CLUSTER"])
            values["extra"]["slurm_bin"] = str(folder)
            if folder.name == "slurm_watched":
                self._with_key(values, "E2E_USER_KEY")
            found[f"AIRFLOW_CONN_GYM_{folder.name.removeprefix('slurm_').upper()}"] = json.dumps(values)
        values = json.loads(self.cluster["AIRFLOW_CONN_GYM_CLUSTER"])
        self._with_key(values, "E2E_STRANGERS_KEY")
        found["AIRFLOW_CONN_E2E_NO_LOGIN"] = json.dumps(values)
        hook = {
            "conn_type": "http",
            "host": "http://127.0.0.1",
            "port": 9,
            "password": self.secrets["E2E_CONN_PASSWORD"],
        }
        return found | {"AIRFLOW_CONN_E2E_HOOK": json.dumps(hook)}

    def _with_key(self, connection: dict[str, Any], name: str) -> None:
        """Put a locked key, what unlocks it, and a password into a connection."""
        connection["password"] = self.secrets["E2E_CONN_PASSWORD"]
        extra = connection["extra"]
        del extra["key_file"]
        extra |= {"private_key": self.secrets[name], "private_key_passphrase": self.secrets["E2E_CONN_PASSPHRASE"]}

    def _let_in(self) -> None:
        """Have the login node know the key of `gym_watched`."""
        key = asyncssh.import_private_key(self.secrets["E2E_USER_KEY"], self.secrets["E2E_CONN_PASSPHRASE"])
        known = self.folder / "cluster" / "ssh" / "authorized_keys"
        public = key.export_public_key().decode()
        if public not in known.read_text():
            known.write_text(known.read_text() + public)

    def add_dags(self, *paths: Path) -> None:
        """More files for the DAG folder; Airflow finds them within some ten seconds."""
        for path in paths:
            shutil.copy(path, self.dags)

    # -- Airflow --------------------------------------------------------------------------------------------------

    def start(self, dag_ids: Sequence[str], listening: Sequence[str] = ()) -> dict[str, Run]:
        """A run of each of these DAGs; they go on side by side. `listening` are DAGs that something else starts."""
        runs = {dag_id: self._queue_run(dag_id) for dag_id in dag_ids}
        for dag_id in listening:
            self.api.wait_for_dag(dag_id, 180)
        # New DAGs are paused, so none has begun yet; with this one request all do.
        pattern = quote(" | ".join([*dag_ids, *listening]))
        self.change("PATCH", f"dags?dag_id_pattern={pattern}&update_mask=is_paused", {"is_paused": False})
        return {dag_id: Run(self, dag_id, run_id or self._scheduled_run(dag_id)) for dag_id, run_id in runs.items()}

    def runs_of(self, dag_id: str, run_type: str, after: Run | None = None) -> list[Run]:
        """Its runs of one type (manual, scheduled, backfill, asset_triggered, operator_triggered), oldest first; those
        that were queued after another began.
        """
        found = self.api.call("GET", f"dags/{dag_id}/dagRuns?run_type={run_type}&order_by=id&limit=100")["dag_runs"]
        since = self.api.call("GET", after.path)["start_date"] if after else ""
        return [Run(self, dag_id, run["dag_run_id"]) for run in found if (run["queued_at"] or "") >= since]

    def _queue_run(self, dag_id: str) -> str | None:
        """The id of a new run; none for a DAG with a schedule, which begins one by itself."""
        self.api.wait_for_dag(dag_id, 180)
        if self.api.call("GET", f"dags/{dag_id}")["timetable_summary"]:
            return None
        now = {"logical_date": datetime.now(UTC).isoformat()}
        return str(self.change("POST", f"dags/{dag_id}/dagRuns", now)["dag_run_id"])

    def _scheduled_run(self, dag_id: str) -> str:
        def begun() -> list[str]:
            found = self.api.call("GET", f"dags/{dag_id}/dagRuns")["dag_runs"]
            return [run["dag_run_id"] for run in found if run["state"] in ("queued", "running")]

        for _ in range(30):
            if ids := begun():
                return ids[0]
            time.sleep(1)
        # The last interval's run has been before, in a stack that is kept.
        return str(self.change("POST", f"dags/{dag_id}/dagRuns", {"logical_date": None})["dag_run_id"])

    def change(self, method: str, path: str, body: dict[str, Any]) -> Any:
        """A request that writes. Airflow's API server and a busy worker may lock each other out of SQLite: it is asked
        again then, as a person would.
        """
        for left in reversed(range(6)):
            try:
                return self.api.call(method, path, body)
            except HTTPError as problem:
                if problem.code not in (500, 503) or not left:
                    raise
            time.sleep(1)
        return None

    # -- taking parts down ----------------------------------------------------------------------------------------

    def crash(self, *parts: str) -> None:
        """SIGKILL these of Airflow's components and of the cluster's daemons, with all their processes, as a lost
        machine would.
        """
        for script, part, mine in (
            ("airflow.sh", "airflow", [name for name in parts if name in self.parts]),
            ("cluster.sh", "cluster", [name for name in parts if name not in self.parts]),
        ):
            if mine:
                self._script(script, "crash", part, *mine)

    def kill_alone(self, part: str) -> None:
        """SIGKILL one of Airflow's components and none of the processes that it has started."""
        leader = self.leader(part)
        os.kill(leader, signal.SIGKILL)
        # While the kernel takes it apart it counts as running, and would not be started again.
        wait_until(f"{part} is gone", 30, lambda: process_stat(leader)[0] in "ZX", every=0.1)

    def start_again(self, *, cluster: bool = False) -> None:
        """Start what was ended of Airflow, and of the cluster as well."""
        if cluster:
            self._script("cluster.sh", "up", "cluster")
        self._script("airflow.sh", "start", "airflow")

    def leader(self, part: str) -> int:
        """The process number of one of Airflow's components."""
        return int((self.home / "run" / f"{part}.process").read_text().split()[0])

    def signal_all(self, leader: int, number: int) -> None:
        """A signal to all processes of a session."""
        session = subprocess.run(["pgrep", "-s", str(leader)], capture_output=True, text=True, check=True)
        for pid in session.stdout.split():
            os.kill(int(pid), number)

    @contextmanager
    def second_triggerer(self) -> Iterator[None]:
        """One more, beside the first, until it is killed at the end."""
        lines = (line.split("=", 1) for line in (self.home / "settings").read_text().splitlines())
        settings = dict(line for line in lines) | {"AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(_free_port())}
        with (self.home / "log" / "second-triggerer.out").open("w") as log:
            triggerer = subprocess.Popen(
                ["airflow", "triggerer"],
                env=self.environ() | settings,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            yield
        finally:
            self.signal_all(triggerer.pid, signal.SIGKILL)
            triggerer.wait(10)

    # -- the cluster ----------------------------------------------------------------------------------------------

    def shell(self, command: str) -> str:
        """A shell command where Slurm's commands reach the cluster. Its standard output."""
        words = ["bash", "-c", command]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120, env=self.environ(), check=False)
        assert done.returncode == 0, f"{command!r} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        return done.stdout

    def airflow(self, *words: str) -> str:
        """What an `airflow` command says, beside the running Airflow."""
        environ = self.environ() | self._environment("airflow.sh", "airflow")
        done = subprocess.run(
            ["airflow", *words], capture_output=True, text=True, timeout=300, env=environ, check=False
        )
        assert done.returncode == 0, f"{words} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def jobs_below(self, folder: str | Path) -> list[Job]:
        """Every job that ever had its working directory there, oldest first. Its end may be seconds late."""
        fields = "JobIDRaw,State,Start,End,ElapsedRaw,WorkDir%500,JobName%200"
        rows = self.shell(f"sacct -nPXa -S now-1days -o {fields}").splitlines()
        found = []
        for row in rows:
            job_id, state, start, end, elapsed, work_dir, name = row.split("|", 6)
            if Path(work_dir).is_relative_to(folder):
                found.append(Job(job_id, name, state, start, end, int(elapsed), work_dir))
        return sorted(found, key=lambda job: int(job.job_id))

    def live_jobs(self) -> set[str]:
        """Ids of all jobs that wait or run."""
        return set(self.shell("squeue -h -o %A").split())

    def open_gate(self, name: str) -> None:
        """Let the jobs go on that wait for this gate."""
        (self.gates / name).touch()


class Run:
    """One DAG run, looked at from outside, through the public API."""

    def __init__(self, stack: Stack, dag_id: str, run_id: str) -> None:
        self.stack, self.api, self.dag_id, self.run_id = stack, stack.api, dag_id, run_id
        self.path = f"dags/{dag_id}/dagRuns/{quote(run_id)}"

    def tasks(self) -> dict[tuple[str, int], dict[str, Any]]:
        """(task id, map index; -1 when not mapped) to task instance."""
        return {(task["task_id"], task["map_index"]): task for task in self.api.tasks(self.dag_id, self.run_id)}

    def task(self, task_id: str, map_index: int = -1) -> dict[str, Any]:
        """One task instance; an empty one while Airflow has not made it."""
        return self.tasks().get((task_id, map_index), {"state": None, "try_number": 0})

    def wait_for(
        self, task_id: str, *states: str, map_index: int = -1, tries: int = 0, seconds: float = 240
    ) -> dict[str, Any]:
        """Until the task is in one of these states, in its try number `tries` or a later one."""

        def ask() -> dict[str, Any] | None:
            found = self.task(task_id, map_index)
            return found if found["state"] in states and found["try_number"] >= tries else None

        return wait_until(
            f"{self.dag_id}.{task_id} {' or '.join(states)}", seconds, ask, say=lambda: self.story(task_id, map_index)
        )

    def end_of(self, task_id: str, map_index: int = -1, seconds: float = 240) -> dict[str, Any]:
        """The task once it is green or red for good."""
        return self.wait_for(task_id, "success", "failed", "upstream_failed", map_index=map_index, seconds=seconds)

    def green(self, task_id: str, map_index: int = -1, seconds: float = 240) -> dict[str, Any]:
        """The return value of the task, which must come to a good end."""
        task = self.end_of(task_id, map_index, seconds)
        assert task["state"] == "success", self.story(task_id, map_index)
        return self.api.result(task)

    def red(self, task_id: str, map_index: int = -1, seconds: float = 240) -> str:
        """The log of the last try of the task, which must fail."""
        task = self.end_of(task_id, map_index, seconds)
        assert task["state"] == "failed", self.story(task_id, map_index)
        return self.log(task_id, task["try_number"], map_index)

    def job(self, task_id: str, map_index: int = -1, seconds: float = 240) -> dict[str, Any]:
        """The XCom `gym_job` of a task that waits for its Slurm job."""
        task = self.wait_for(task_id, "deferred", map_index=map_index, seconds=seconds)
        return wait_until("the XCom gym_job", 30, lambda: self.api.result(task, "gym_job"))

    def log_lines(self, task_id: str, try_number: int, map_index: int = -1) -> list[dict[str, Any]]:
        """One mapping per line of the log of one try."""
        return self.api.log(self.task(task_id, map_index), try_number)

    def log(self, task_id: str, try_number: int, map_index: int = -1) -> str:
        """The log of one try as people read it, with exceptions and reasons of retries."""
        lines = self.log_lines(task_id, try_number, map_index)
        return "\n".join(json.dumps(line) if set(line) - _PLAIN else str(line["event"]) for line in lines)

    def retry_reasons(self, task_id: str, map_index: int = -1) -> list[str]:
        """Why our retry policy had the task tried again, try by try."""
        last = self.task(task_id, map_index)["try_number"]
        lines = [line for number in range(1, last + 1) for line in self.log_lines(task_id, number, map_index)]
        return [line["reason"] for line in lines if line.get("action") == "retry"]

    def mark(self, task_id: str, state: str) -> None:
        """What "mark as failed" in the UI does."""
        self.stack.change("PATCH", f"{self.path}/taskInstances/{task_id}", {"new_state": state})

    def clear(self, task_id: str, map_index: int | None = None, *, downstream: bool = False) -> None:
        """What "clear" in the UI does, for all instances of a mapped task or one; `downstream`: and what follows."""
        if all(task["state"] in ("success", "failed", "upstream_failed") for task in self.tasks().values()):
            # In the moment in which the scheduler ends a run it forgets that something was cleared.
            wait_until(
                f"the end of {self.dag_id}",
                60,
                lambda: self.api.call("GET", self.path)["state"] in ("success", "failed"),
            )
        tasks: list[Any] = [task_id if map_index is None else [task_id, map_index]]
        wanted = {"dag_run_id": self.run_id, "task_ids": tasks, "only_failed": False, "dry_run": False}
        wanted["include_downstream"] = downstream
        self.stack.change("POST", f"dags/{self.dag_id}/clearTaskInstances", wanted)

    def story(self, task_id: str, map_index: int = -1) -> str:
        """What happened to a task, for the message of a failed test."""
        task = self.task(task_id, map_index)
        words = [f"{self.dag_id}.{task_id}[{map_index}] is {task['state']} in try {task['try_number']}"]
        for number in range(max(1, task["try_number"] - 1), task["try_number"] + 1):
            try:
                words += [f"--- log of try {number}", self.log(task_id, number, map_index)[-3000:]]
            except Exception as problem:
                words.append(f"--- no log of try {number}: {problem}")
        return "\n".join(words)


_PLAIN = {"timestamp", "event", "level", "logger", "filename", "lineno", "task_instance_id"}
