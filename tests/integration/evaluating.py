"""A task instance of GymEvalOperator in this process, over the real sshd to the real Slurm, try by try."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from airflow.sdk import DAG
from airflow.sdk.definitions.retry_policy import RetryAction
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from airflow_gym_provider.hooks.slurm import SlurmHook
from airflow_gym_provider.operators.gym import GymEvalOperator
from airflow_gym_provider.operators.retry import ENDLESS
from airflow_gym_provider.slurm.remote import RemoteScript

BENCHMARK = "demo"


@dataclass(frozen=True)
class End:
    """What became of a try: "waits" for `job_id`, "again" after `delay` seconds, "red", or "green" with a `result`."""

    how: str
    reason: str = ""
    job_id: str = ""
    delay: float = 0
    result: Any = None


class Task:
    """One task instance. `before` is bash that runs on the login node in front of every script, in the same shell."""

    def __init__(self, cluster: Any, monkeypatch: Any, output: Path | str, **changes: Any) -> None:
        self.cluster, self.before = cluster, ""
        self._name = f"{os.getpid()} {time.time_ns()}"
        run, command = changes.pop("run", None), changes.pop("command", "sleep 600")
        benchmark = {"command": command} if run is None else {"run": run}
        self.config = self._config(str(output), benchmark, changes.pop("extra", {"hold": ""}))
        self.operator = GymEvalOperator(
            task_id="eval", config=self.config, ssh_conn_id="gym_cluster", results_timeout=2, **changes
        )
        self.ti = TaskInstance(
            dag_id="places", run_id=self._name, task_id="eval", map_index=-1, max_tries=ENDLESS, try_number=1, xcoms={}
        )
        run = SimpleNamespace(run_after=datetime(2026, 1, 31, tzinfo=UTC), run_id=self._name)
        self.context: Any = {"ti": self.ti, "dag_run": run, "dag": DAG("places"), "task_state_store": Store()}
        self._plan: dict[str, Any] = {}
        original = SlurmHook.arun

        async def arun(hook: SlurmHook, script: RemoteScript, *rest: Any) -> Any:
            text = f"{self.before}\n{script.text}" if self.before else script.text
            return await original(hook, RemoteScript(text, script.nonce), *rest)

        monkeypatch.setattr(SlurmHook, "arun", arun)

    @staticmethod
    def _config(output: str, benchmark: dict[str, Any], extra: dict[str, str]) -> dict[str, Any]:
        pools = {"main": {"partition": "debug"}}
        compute = {"type": "slurm", "account": "eval", "walltime": "00:20:00", "node_pools": pools}
        return {
            "services": {},
            "compute": {"slurm": compute | {"extra_args": extra}},
            "driver": {"container": "gym:stand-in", "benchmarks": {BENCHMARK: benchmark}},
            "job": {"output_path": output},
            "otel": {"enabled": False},
        }

    # -- tries ----------------------------------------------------------------------------------------------------

    def start(self) -> End:
        """A new try."""
        return self._end(lambda: self.operator.execute(self.context))

    def woken(self) -> End:
        """The same try, after the trigger's event."""
        event = {"reason": "ended", "jobs": [], "at": time.time()}
        return self._end(lambda: self.operator.execute_complete(self.context, event, plan=self._plan))

    def clear(self) -> None:
        """What a click on Clear does to a task that is red."""
        self.ti.max_tries += self.ti.try_number

    def _end(self, work: Any) -> End:
        try:
            return End("green", result=work())
        except TaskDeferred as deferred:
            self._plan = deferred.kwargs["plan"]
            return End("waits", job_id=deferred.trigger.job_ids[0])
        except AirflowFailException as err:
            return End("red", str(err))
        except Exception as err:
            said = self.operator.retry_policy.evaluate(err, 1, ENDLESS, self.context)
            again = said.action is RetryAction.RETRY
            delay = said.retry_delay.total_seconds() if said.retry_delay else 0
            return End("again" if again else "red", said.reason or str(err), delay=delay)

    # -- what is there --------------------------------------------------------------------------------------------

    @property
    def run_dir(self) -> Path:
        return Path(self.context["task_state_store"]["gym_chain"]["place"]["plan"]["run_dir"])

    @property
    def job_dir(self) -> Path:
        return self.run_dir / BENCHMARK

    @property
    def jobs(self) -> list[str]:
        """Every job that Slurm has ever had of it."""
        return self.cluster.jobs_named(self.context["task_state_store"]["gym_chain"]["place"]["plan"]["job_name"])

    @property
    def failure(self) -> str:
        """What other tasks are told of the last try."""
        return self.ti.xcoms["gym_failure"]["reason"]

    def end(self) -> None:
        """Leave no job."""
        with suppress(KeyError):
            if jobs := self.jobs:
                self.cluster.run(f"scancel {' '.join(jobs)}", check=False)


class Store(dict[str, Any]):
    """context["task_state_store"]."""

    def set(self, key: str, value: Any) -> None:
        self[key] = value


class TaskInstance(SimpleNamespace):
    """What the operator uses of a running task instance."""

    def xcom_push(self, key: str, value: Any) -> None:
        self.xcoms[key] = value
