"""SlurmJobSensor: wait for jobs that something else has queued."""

from __future__ import annotations

import ast
import json
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_gym_provider.seconds import Seconds, seconds

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

    from airflow_gym_provider.hooks.slurm import SlurmHook
    from airflow_gym_provider.triggers.follow import Follower
    from airflow_gym_provider.triggers.observe import Observation
    from airflow_gym_provider.triggers.slurm import SlurmJobTrigger

COMPLETED = "COMPLETED"
Jobs = str | int | Sequence[str | int | Mapping[str, Any]] | Mapping[str, Any]


class SlurmJobSensor(BaseSensorOperator):
    """Succeeds when every job has COMPLETED; fails with a clear text when one ended otherwise or was never queued.

    It only watches: nothing is cancelled when it is cleared, marked or times out, and results are not looked at. Slurm
    or the login node being away is waited for.

    :param jobs: an id as sbatch answers ("60", "60;c2"), several of them, a submission record
        (what `GymSubmitOperator` returns, or its text): then all its benchmarks, or a list of those (templated).
    :param ssh_conn_id: SSH connection of the login node; None when Slurm's commands are on the worker (templated).
    :param hostname: the login node, for a connection that names none.
    :param poll_interval: seconds between two looks; the connection's extra `poll_interval` is the shortest. Airflow's
        own name for it, `poke_interval`, is taken as well.
    :param deferrable: wait in the triggerer (default), where all tasks share each look; else in the worker, which must
        stay: with `mode="reschedule"` nobody would know for how long a job has been lost.
    :param lost_timeout: seconds for which squeue and sacct must both answer and not know a job until it is lost.
    """

    template_fields: Sequence[str] = ("jobs", "ssh_conn_id")
    ui_color = "#dbe9f4"

    def __init__(
        self,
        *,
        jobs: Jobs,
        ssh_conn_id: str | None = None,
        hostname: str | None = None,
        poll_interval: Seconds = 30.0,
        deferrable: bool = True,
        lost_timeout: Seconds = 60.0,
        **kwargs: Any,
    ) -> None:
        self.poll_interval = seconds("poll_interval", kwargs.pop("poke_interval", poll_interval))
        super().__init__(poke_interval=self.poll_interval, **kwargs)
        if self.mode == "reschedule" and not deferrable:
            raise ValueError("mode is 'reschedule'; leave deferrable=True, which frees the worker as well")
        self.jobs = jobs
        self.ssh_conn_id = ssh_conn_id
        self.hostname = hostname
        self.deferrable = deferrable
        self.lost_timeout = seconds("lost_timeout", lost_timeout, zero=True)
        self._hook: SlurmHook | None = None
        self._follower: Follower | None = None
        self._looked_at = float("-inf")

    def execute(self, context: Context) -> Any:
        """Look once, then wait in the triggerer, or here."""
        wanted_jobs(self.jobs)
        if not self.deferrable:
            return super().execute(context)
        if not self._first_look(context):
            self.defer(trigger=self._trigger(), method_name="execute_complete", timeout=timedelta(seconds=self.timeout))
        return None

    def _first_look(self, context: Context) -> bool:
        """A poke whose failure means what Airflow makes of it in a worker, and after a deferral."""
        try:
            return self.poke(context)
        except Exception as err:
            if self.never_fail or (self.soft_fail and isinstance(err, AirflowFailException)):
                raise AirflowSkipException(f"skipped instead of failed: {err}") from err
            raise

    def execute_complete(self, context: Context, event: dict[str, Any] | None = None) -> None:
        """After the trigger's event."""
        self._judge(event or {})

    def poke(self, context: Context) -> bool:
        """One look; False to go on waiting."""
        if self._hook is not None and time.monotonic() - self._looked_at < self._hook.poll_floor:
            return False
        self._looked_at = time.monotonic()
        look = self._look()
        if self._follower is None:
            from airflow_gym_provider.triggers.follow import Follower

            self._follower = Follower(self._trigger().refs(), self.lost_timeout)
        lines, event = self._follower.see(look, time.monotonic())
        for line in lines:
            self.log.log(line.level, "%s", line.text)
        if event is None:
            return False
        self._judge(dict(event))
        return True

    def _look(self) -> Observation:
        from airflow_gym_provider.hooks.slurm import SlurmHook
        from airflow_gym_provider.triggers.observe import look_here

        if self._hook is None:
            self._hook = SlurmHook(self.ssh_conn_id, self.hostname)
            self._hook.load()
        return look_here(self._hook, self._trigger().refs(), {})

    def _trigger(self) -> SlurmJobTrigger:
        from airflow_gym_provider.triggers.slurm import EVENT_AFTER, SlurmJobTrigger

        wanted = wanted_jobs(self.jobs)
        return SlurmJobTrigger(
            job_ids=list(wanted),
            job_dirs=list(wanted.values()),
            ssh_conn_id=self.ssh_conn_id,
            hostname=self.hostname if self.ssh_conn_id else None,
            poll_interval=self.poll_interval,
            lost_after=self.lost_timeout,
            not_before=time.time() + EVENT_AFTER,
        )

    def _judge(self, event: Mapping[str, Any]) -> None:
        """Raise unless every job of an event has COMPLETED."""
        jobs: list[Mapping[str, Any]] = event.get("jobs", [])
        bad = [f"job {job['job_id']} ended {_how(job)}" for job in jobs if job.get("ending") != COMPLETED]
        if event.get("reason") != "ended":
            bad.append(str(event.get("text") or event.get("reason")))
        if bad:
            raise AirflowFailException("; ".join(bad))
        self.log.info("COMPLETED: %s", ", ".join(str(job["job_id"]) for job in jobs))


def _how(job: Mapping[str, Any]) -> str:
    code = f" {job['exit_code']}:{job.get('signal') or 0}" if job.get("exit_code") is not None else ""
    return f"{job.get('state') or job.get('ending')}{code} after {job.get('elapsed', 0)} s"


def wanted_jobs(jobs: Jobs) -> dict[str, str | None]:
    """The jobs in what the sensor is given, as sbatch answers, each with its directory where a record names it: that
    tells it from another one of its number. Raises AirflowFailException for none, and for benchmarks never queued.
    """
    if isinstance(jobs, str) and jobs.lstrip().startswith(("{", "[")):
        jobs = _read(jobs.strip())
    if isinstance(jobs, Mapping):
        return _recorded(jobs)
    wanted: dict[str, str | None] = {}
    for job in [jobs] if isinstance(jobs, str | int) else jobs:
        wanted |= _recorded(job) if isinstance(job, Mapping) else {str(job): None}
    return _checked(wanted)


def _read(text: str) -> Any:
    """A record, or a list, as JSON or as a template turns it into text."""
    for read in (json.loads, ast.literal_eval):
        try:
            return read(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
    raise AirflowFailException(f"`jobs` must be job ids or a submission record, not {text[:80]!r}")


def _checked(wanted: dict[str, str | None]) -> dict[str, str | None]:
    from airflow_gym_provider.jobscript.quoting import check_text
    from airflow_gym_provider.slurm.commands import check_key

    try:
        for job, folder in wanted.items():
            check_key(job)
            check_text(folder or "")
    except ValueError as err:
        raise AirflowFailException(f"`jobs` must be job ids or a submission record: {err}") from None
    if not wanted:
        raise AirflowFailException("`jobs` must be job ids or a submission record: nothing given")
    return wanted


def _recorded(record: Mapping[str, Any]) -> dict[str, str | None]:
    from airflow_gym_provider.slurm.keys import cluster_of, job_key

    entries = record.get("benchmarks") or []
    unqueued = [f"{entry.get('benchmark')}: {entry.get('error')}" for entry in entries if not entry.get("job_id")]
    if unqueued:
        raise AirflowFailException("never queued: " + "; ".join(unqueued))
    if not entries:
        raise AirflowFailException("`jobs` is a mapping without benchmarks: no submission record")
    wanted = {}
    for entry in entries:
        job, folder = str(entry["job_id"]), entry.get("job_dir")
        key = job if cluster_of(job) else job_key(job, entry.get("slurm_cluster"))
        wanted[key] = folder if isinstance(folder, str) and folder.startswith("/") else None
    return _checked(wanted)
