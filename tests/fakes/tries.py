"""Tries of a GymEvalOperator as processes that may be killed, without an Airflow around them.

Run as a program it imports everything once, then forks a process for each order that it reads (one line of JSON): a
whole `execute` over the real connection, with the retry policy's answer, and the task's memory in a file, for it has to
survive the kill. `place` of an order is the line of ours at which the process kills or stops itself, `log` where
it writes the lines that it passes. `Tries` is its client.
"""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import subprocess
import sys
import threading
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
OURS = str(TESTS.parent / "airflow_gym_provider") + "/"
ROOMS = ("chain/", "slurm/", "hooks/", "operators/", "triggers/")
STAMP = datetime(2026, 1, 31, 8, 5, 9, tzinfo=UTC)


@dataclass(frozen=True)
class Order:
    """One try. `memory` is the file that stands for Airflow's task state store.

    `remote` is bash that runs on the login node before the try's script number `script` (1: look, 2: submit). `sign` is
    sent at `place` (see `traced`).
    """

    config: dict[str, Any]
    benchmark: str
    run_id: str
    memory: str
    result: str
    run_group: str | None = None
    place: str = ""
    sign: int = signal.SIGKILL
    log: str = ""
    remote: str = ""
    script: int = 2
    environ: dict[str, str] = field(default_factory=dict)


class Tries:
    """The program's client: `start` an order, wait for its end."""

    def __init__(self) -> None:
        environ = {name: value for name, value in os.environ.items() if not name.startswith("COV_")}
        path = os.pathsep.join([str(TESTS), str(TESTS.parent)])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fakes.tries"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environ | {"PYTHONPATH": path, "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING"},
            start_new_session=True,
        )
        self._lock, self._count = threading.Lock(), 0
        self._pids: dict[int, Future[int]] = {}
        self._ends: dict[int, Future[int]] = {}
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in self.process.stdout or ():
            if line.startswith("@@"):
                what, number, value = json.loads(line[2:])
                {"pid": self._pids, "end": self._ends}[what][number].set_result(value)
        for future in [*self._pids.values(), *self._ends.values()]:
            if not future.done():
                future.set_exception(RuntimeError("the program of tries has ended"))

    def start(self, order: Order) -> tuple[int, Future[int]]:
        """Its process id, and its exit status in the future (negative: the signal that ended it)."""
        with self._lock:
            self._count += 1
            number = self._count
            pid, end = self._pids.setdefault(number, Future()), self._ends.setdefault(number, Future())
            self.process.stdin.write(json.dumps([number, asdict(order)]) + "\n")
            self.process.stdin.flush()
        return pid.result(200), end

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait(30)


# -- the program ------------------------------------------------------------------------------------------------------


class Memory(dict):
    """context["task_state_store"] in a file."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        super().__init__(json.loads(self.path.read_text()) if self.path.exists() else {})

    def set(self, key: str, value: Any) -> None:
        self[key] = value
        new = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        new.write_text(json.dumps(self))
        new.replace(self.path)


class TaskInstance(SimpleNamespace):
    """What the operator uses of a running task instance."""

    def xcom_push(self, key: str, value: Any) -> None:
        json.dumps(value)


def traced(order: Order) -> None:
    """Have every line of ours that is reached for the first time written down, or the process end at one of them.

    A place is "<file>:<line>:<n>": the n-th time that the line is reached.
    """
    passed: dict[tuple[str, int], int] = {}
    log = os.open(order.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND) if order.log else -1
    file, number, times = order.place.split(":") if order.place else ("", "0", "0")
    wanted = (file, int(number), int(times))

    def line(frame: Any, event: str, _: Any) -> Any:
        if event == "line":
            key = (frame.f_code.co_filename[len(OURS) :], frame.f_lineno)
            passed[key] = count = passed.get(key, 0) + 1
            if (*key, count) == wanted:
                os.kill(os.getpid(), order.sign)
            elif log >= 0 and count <= 2:
                os.write(log, f"{key[0]}:{key[1]}:{count}\n".encode())
        return line

    def call(frame: Any, _event: str, _arg: Any) -> Any:
        name = frame.f_code.co_filename
        return line if name.startswith(OURS) and name[len(OURS) :].startswith(ROOMS) else None

    threading.settrace(call)
    sys.settrace(call)


def run_try(order: Order) -> dict[str, Any]:
    """What became of one try: {"ended": "deferred", "job_id": …}, or "retry" or "failed" with the reason."""
    from airflow.sdk import DAG
    from airflow.sdk.definitions.retry_policy import RetryAction
    from airflow.sdk.exceptions import TaskDeferred

    from airflow_gym_provider.operators.gym import GymEvalOperator
    from airflow_gym_provider.operators.retry import ENDLESS

    os.environ.update(order.environ)
    if order.remote:
        script_begins_with(order.remote, order.script)
    ti = TaskInstance(dag_id="crashes", run_id=order.run_id, task_id="eval", map_index=-1, max_tries=ENDLESS)
    run = SimpleNamespace(run_after=STAMP, run_id=order.run_id)
    context: Any = {"ti": ti, "dag_run": run, "dag": DAG("crashes"), "task_state_store": Memory(order.memory)}
    operator = GymEvalOperator(
        task_id="eval",
        config=order.config,
        benchmark=order.benchmark,
        ssh_conn_id="gym_cluster",
        run_group=order.run_group,
    )
    if order.place or order.log:
        traced(order)
    try:
        operator.execute(context)
    except TaskDeferred as deferred:
        (job_id,) = deferred.trigger.refs()
        return {"ended": "deferred", "job_id": job_id.key}
    except Exception as err:
        said = operator.retry_policy.evaluate(err, 1, ENDLESS, context)
        again = said.action is RetryAction.RETRY
        delay = said.retry_delay.total_seconds() if said.retry_delay else 2.0
        return {
            "ended": "retry" if again else "failed",
            "reason": f"{type(err).__name__}: {said.reason or err}",
            "delay": delay,
        }
    finally:
        sys.settrace(None)
    return {"ended": "done"}


def script_begins_with(text: str, number: int) -> None:
    from airflow_gym_provider.hooks.slurm import SlurmHook
    from fakes.killing import begun_with

    original, left = SlurmHook.arun, [number]

    async def arun(hook: SlurmHook, script: Any, *rest: Any) -> Any:
        left[0] -= 1
        changed = begun_with(text, script) if left[0] == 0 else script
        return await original(hook, changed, *rest)

    SlurmHook.arun = arun


def child(order: Order) -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    output = os.open(f"{order.result}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", force=True)
    status = 1
    try:
        new = Path(f"{order.result}.new")
        new.write_text(json.dumps(run_try(order)))
        new.replace(order.result)
        status = 0
    except BaseException:
        logging.exception("a try ended as none should")
    finally:
        logging.shutdown()
        os._exit(status)


def main() -> None:
    import asyncssh  # noqa: F401
    from airflow.sdk import DAG  # noqa: F401

    from airflow_gym_provider.config import load_submit_config  # noqa: F401
    from airflow_gym_provider.jobscript import render_job_script  # noqa: F401
    from airflow_gym_provider.operators import _chain, _waiting, gym  # noqa: F401

    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    os.set_blocking(reader, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    serve(reader)


def serve(woken: int) -> None:
    """Fork for every order until the orders end; tell the end of every fork."""

    def tell(*words: Any) -> None:
        os.write(1, f"@@{json.dumps(words)}\n".encode())

    running: dict[int, int] = {}
    rest, open_ = b"", True
    while open_ or running:
        ready, _, _ = select.select([woken, *([0] if open_ else [])], [], [], 5)
        if woken in ready:
            os.read(woken, 4096)
        while running and (found := os.waitpid(-1, os.WNOHANG))[0]:
            if (number := running.pop(found[0], None)) is not None:
                tell("end", number, os.waitstatus_to_exitcode(found[1]))
        if 0 in ready:
            data = os.read(0, 65536)
            open_ = bool(data)
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                number, values = json.loads(line)
                pid = os.fork()
                if pid == 0:
                    os.close(0)
                    child(Order(**values))
                running[pid] = number
                tell("pid", number, pid)


if __name__ == "__main__":
    main()
