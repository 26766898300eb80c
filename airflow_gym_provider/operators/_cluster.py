"""One chain's place on the cluster, and what a task does there: look, cancel, keep the counters."""

from __future__ import annotations

import logging
import posixpath
import threading
from collections.abc import Callable, Iterable

from airflow_gym_provider.chain import (
    Decision,
    Look,
    cancel_script,
    counters_script,
    look_script,
    read_cancel,
    read_look,
)
from airflow_gym_provider.exceptions import SlurmAnswerCutError, SlurmShellError, SlurmTransportError
from airflow_gym_provider.hooks.slurm import SlurmHook
from airflow_gym_provider.operators._plan import ChainPlan
from airflow_gym_provider.results import RESULTS_FILE, Summary, parse_summary, summary_body
from airflow_gym_provider.slurm.keys import cluster_of
from airflow_gym_provider.slurm.remote import RemoteScript

LOOK_TIMEOUT = 300.0
SUMMARY_TIMEOUT = 1800.0
"""Seconds. Rollouts of 2 GB take one to three minutes, and may wait for those of other benchmarks."""
_CANCEL_TIMEOUT = 60.0
_TABLE_CAP = 512 * 1024
"""Bytes of rewards per task that are fetched for Airflow to keep: of more, they would not fit there."""
KILL_SECONDS = 4.0
"""Airflow sends SIGKILL 5 s after it has called on_kill."""

_log = logging.getLogger(__name__)


class Cluster:
    """One chain, seen through one connection."""

    def __init__(self, hook: SlurmHook, plan: ChainPlan) -> None:
        self.hook = hook
        self.plan = plan

    def look(self, clusters: Iterable[str] = ()) -> Look:
        """The chain's directory, jobs and results, in one round trip. Raises as `read_look` and SlurmHook.run."""
        plan, places = self.plan, [self.plan.place]
        script = look_script(
            plan.run_dir,
            plan.chain_key,
            places,
            clusters=[*plan.clusters, *clusters],
            writing=True,
            **self.hook.script_options,
        )
        return read_look(script, self.hook.run(script, LOOK_TIMEOUT), places)

    def cancel(self, why: str, job_ids: Iterable[str] = (), *, quick: bool = False) -> str:
        """Cancel the chain's job by id and by name; what came of it, in words. Raises as SlurmHook.run."""
        place, keys = self.plan.place, list(job_ids)
        script = cancel_script(
            [place],
            why,
            job_ids={place.benchmark: keys},
            clusters=[*self.plan.clusters, *(cluster for key in keys if (cluster := cluster_of(key)))],
            quick=quick,
            **self.hook.script_options,
        )
        answer = self.hook.run(script, KILL_SECONDS, attempts=1) if quick else self.hook.run(script, _CANCEL_TIMEOUT)
        return read_cancel(script, answer, [place])[place.benchmark].text

    def summarise(self, since: float | None = None) -> Summary:
        """What a finished chain's rollouts come to, and a custom harness's numbers, which count when they are not from
        before `since`. An answer that did not come, or not to its end, is the summary's `problem`: the rollouts may be
        what took too long. Raises as SlurmHook.run when nothing was asked.
        """
        spec = self.plan.spec
        own = posixpath.join(self.plan.job_dir, RESULTS_FILE) if spec.judged_by == "exit_status" else None
        script = RemoteScript.build(
            summary_body(spec.rollouts_path, tasks=True, table_cap=_TABLE_CAP, results_path=own), needs=()
        )
        try:
            answer = self.hook.run(script, SUMMARY_TIMEOUT)
        except SlurmShellError:
            raise
        except SlurmAnswerCutError as err:
            return Summary(problem=str(err))
        return parse_summary(script.frames(answer.stdout), spec.rollouts_path, results_path=own, since=since)

    def count(self, decision: Decision) -> None:
        """Leave true counters beside the results of a chain that is over: for people, so failing to is no matter."""
        if not self.plan.bounds.resumable:
            return
        script = counters_script(self.plan.place, decision.used, decision.retries)
        try:
            self.hook.run(script, 30)
        except SlurmTransportError as err:
            _log.info("the counters in %s could not be written: %s", self.plan.job_dir, err)


def kill(cluster: Cluster, why: str, job_ids: Iterable[str], go_on: Callable[[], str | None] = lambda: None) -> str:
    """Cancel within 4 s, from a signal handler; what came of it, in words. Never raises.

    In a thread of its own: the handler interrupts whatever the task was doing, perhaps while it held a lock that the
    way to the cluster needs as well. Over the task's connection, if that is open. `go_on` is asked first, there too;
    what it answers is why nothing is cancelled.
    """
    said: list[str] = []

    def work() -> None:
        try:
            reason = go_on()
            if reason is not None:
                said.append(f"not cancelled: {reason}; the job goes on, and the next try takes it up")
            else:
                said.append(cluster.cancel(why, job_ids, quick=True))
        except Exception as err:
            said.append(f"the job could not be cancelled: {err}")

    thread = threading.Thread(target=work, name="gym-kill", daemon=True)
    thread.start()
    thread.join(KILL_SECONDS)
    return said[0] if said else f"no answer in {KILL_SECONDS:g} s to the question whether to cancel, or to the cancel"
