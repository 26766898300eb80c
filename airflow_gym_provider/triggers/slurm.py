"""SlurmJobTrigger: wait for Slurm jobs in the triggerer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from itertools import zip_longest
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_gym_provider.chain import ChainPlace
from airflow_gym_provider.exceptions import SlurmAuthenticationError, SlurmSettingsError, SlurmTransportError
from airflow_gym_provider.jobscript.quoting import check_text
from airflow_gym_provider.seconds import Seconds, seconds
from airflow_gym_provider.slurm.commands import check_key
from airflow_gym_provider.slurm.keys import cluster_of, number_of
from airflow_gym_provider.slurm.progress import Progress
from airflow_gym_provider.slurm.status import JobRef
from airflow_gym_provider.slurm.tails import LogTail
from airflow_gym_provider.triggers.events import EventReason, job_event
from airflow_gym_provider.triggers.follow import LOST_AFTER, Follower
from airflow_gym_provider.triggers.kills import Kill
from airflow_gym_provider.triggers.live import LiveWord
from airflow_gym_provider.triggers.task_state import ENDED, WAITS, has_supervisor, state_for_trigger
from airflow_gym_provider.triggers.watcher import watcher_for

EVENT_AFTER = 10.0
"""Seconds after a deferral before which an event does harm: Airflow may learn only then that the worker which deferred
has gone, and takes that for the end of the task it has just woken, failing it (apache/airflow#72716)."""
_KILL_TIMEOUT = 25.0
_CANCEL_TRIES = 6
_LONGEST_NAP = 3600.0


class SlurmJobTrigger(BaseTrigger):
    """Fires one event when every job has ended, is lost, or the deadline is over; see `events`.

    Jobs are watched together with those of all other tasks (see `watcher`). The event only wakes the task, which looks
    at the cluster itself: running this trigger twice at once does no harm. A user who clears or marks the deferred task
    has its job cancelled (`on_kill`); a restart of the triggerer cancels nothing.

    Arguments are a public format: they may be added to, never taken away, and all but the first have defaults. Raises
    ValueError for an id, a path or a number that Slurm, a shell or the look of all the others could not be given.

    :param job_ids: ids as sbatch answers: "60", or "60;c2" on another cluster of a federation.
    :param ssh_conn_id: SSH connection of the login node; None for this machine.
    :param hostname: the config's hostname, for a connection that names no host.
    :param poll_interval: seconds between looks; the connection's `poll_interval` is a floor.
    :param deadline: seconds since 1970, after which the job is cancelled and the event says so.
    :param lost_after: seconds for which a job may be unknown to Slurm.
    :param submitted_at: when the job was submitted, by the cluster's clock (tells apart a number that is used again).
    :param job_dir: the benchmark's directory: what to cancel in, with `job_name` and `benchmark`.
    :param rollouts_path: the file whose lines are the progress.
    :param follow_log: show new lines of the driver's log, if the job.sh in `job_dir` says what to hide.
    :param not_before: seconds since 1970 before which no event is fired; see `EVENT_AFTER`.
    :param max_tries: of the task instance when it was deferred: a clear since then has raised it.
    :param job_dirs: the working directory of each of `job_ids`, where they have not one in common; None for one of
        which it is not known.
    """

    def __init__(
        self,
        job_ids: Sequence[str],
        *,
        ssh_conn_id: str | None = None,
        hostname: str | None = None,
        poll_interval: Seconds = 30.0,
        deadline: float | None = None,
        lost_after: Seconds = LOST_AFTER,
        submitted_at: float | None = None,
        job_dir: str | None = None,
        job_name: str | None = None,
        benchmark: str | None = None,
        rollouts_path: str | None = None,
        follow_log: bool = False,
        not_before: float | None = None,
        max_tries: int | None = None,
        job_dirs: Sequence[str | None] = (),
        **_from_another_release: object,
    ) -> None:
        super().__init__()
        # A look is shared: what can be asked about no job would be in the way of everybody else's.
        self.job_ids = [check_key(job_id) for job_id in job_ids]
        for text in (job_dir, rollouts_path, *job_dirs):
            check_text(text or "")
        self.ssh_conn_id = ssh_conn_id
        self.hostname = hostname
        self.poll_interval = seconds("poll_interval", poll_interval)
        self.deadline = deadline
        self.lost_after = seconds("lost_after", lost_after, zero=True)
        self.submitted_at = submitted_at
        self.job_dir = job_dir
        self.job_name = job_name
        self.benchmark = benchmark
        self.rollouts_path = rollouts_path
        self.follow_log = follow_log
        self.not_before = not_before
        self.max_tries = max_tries
        self.job_dirs = list(job_dirs)
        self._killing: asyncio.Task[None] | None = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The arguments as they are."""
        return (
            "airflow_gym_provider.triggers.slurm.SlurmJobTrigger",
            {
                "job_ids": self.job_ids,
                "ssh_conn_id": self.ssh_conn_id,
                "hostname": self.hostname,
                "poll_interval": self.poll_interval,
                "deadline": self.deadline,
                "lost_after": self.lost_after,
                "submitted_at": self.submitted_at,
                "job_dir": self.job_dir,
                "job_name": self.job_name,
                "benchmark": self.benchmark,
                "rollouts_path": self.rollouts_path,
                "follow_log": self.follow_log,
                "not_before": self.not_before,
                "max_tries": self.max_tries,
                "job_dirs": self.job_dirs,
            },
        )

    def refs(self) -> list[JobRef]:
        """The jobs, as Slurm is asked for them."""
        return [
            JobRef(number_of(key), cluster_of(key), folder or self.job_dir, self.submitted_at)
            for key, folder in zip_longest(self.job_ids, self.job_dirs[: len(self.job_ids)])
        ]

    def tails(self) -> dict[str, LogTail]:
        """The logs whose new lines are shown."""
        if not (self.follow_log and self.job_dir):
            return {}
        logs, script = f"{self.job_dir}/logs", f"{self.job_dir}/job.sh"
        return {ref.key: LogTail(f"{logs}/driver-{ref.job_id}.log", script) for ref in self.refs()}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait; see the class."""
        refs = self.refs()
        progress = {ref.key: Progress(self.rollouts_path) for ref in refs} if self.rollouts_path else {}
        follower = Follower(refs, self.lost_after)
        words = [LiveWord(ref) for ref in refs]
        watcher = watcher_for(self.ssh_conn_id, self.hostname)
        with watcher.subscribe(refs, self.poll_interval, progress, self.tails()) as subscription:
            while True:
                rest = _LONGEST_NAP if self.deadline is None else self.deadline - time.time()
                if rest <= 0:
                    text = await self._cancel_at_last()
                    await self._let_the_worker_go()
                    yield TriggerEvent(job_event(EventReason.DEADLINE, text))
                    return
                look = await subscription.next(min(rest, _LONGEST_NAP))
                if look is None:
                    continue
                lines, event = follower.see(look, asyncio.get_running_loop().time())
                for line in lines:
                    self.log.log(line.level, "%s", line.text)
                for word in words:
                    await word.tell(self.task_instance, look)
                if event is not None:
                    await self._let_the_worker_go()
                    yield TriggerEvent(event)
                    return

    async def _let_the_worker_go(self) -> None:
        rest = 0.0 if self.not_before is None else self.not_before - time.time()
        await asyncio.sleep(max(0.0, min(rest, EVENT_AFTER)))

    async def on_kill(self) -> None:
        """Cancel the job if the task was cleared or marked by hand. Says what it found, never raises.

        Airflow calls this as well when another triggerer has taken the trigger over or has fired its event: then there
        is nothing to cancel.

        Airflow 3.3 cancels this coroutine again about every second for as long as it runs (`to_cancel` of each sync in
        triggerer_job_runner.py), and on Python 3.11 its `wait_for` gives up at the second time. So the work is a task
        of its own, which that does not reach, and `cleanup` waits for the rest. It ends within 25 s.
        """
        self._killing = asyncio.get_running_loop().create_task(self._kill())
        await self._until_killed()

    async def cleanup(self) -> None:
        """Wait for a kill that is at work, whose words belong into the task's log. Cancels no job by itself."""
        await self._until_killed()

    async def _until_killed(self) -> None:
        while self._killing is not None and not self._killing.done():
            try:
                await asyncio.shield(self._killing)
            except asyncio.CancelledError:
                if self._killing.cancelled():  # the loop itself comes to its end
                    raise

    async def _kill(self) -> None:
        try:
            async with asyncio.timeout(_KILL_TIMEOUT):
                text = await self._reason_to_go_on()
                if text is None:
                    text = await self._cancel("the task was cleared or marked in Airflow", quick=True)
        except (SlurmTransportError, TimeoutError) as err:
            self.log.error(
                "job %s could not be cancelled: %s", ", ".join(self.job_ids), str(err) or "no answer in time"
            )
            return
        self.log.info("%s", text)

    async def _reason_to_go_on(self) -> str | None:
        """Why nothing is to be cancelled; None when something is. Raises what the way to the cluster raises."""
        state = await self._state()
        if state == WAITS:
            return "not cancelled: the task still waits, and another triggerer watches its job"
        if state is None or state in ENDED:
            return None
        # Cleared, or woken by another triggerer's event. A task is woken when its job has ended.
        if await self._lives():
            return None
        return f"nothing to cancel: the job has ended, and the task goes on ({state})"

    async def _state(self) -> str | None:
        """The task's state, as Airflow knows it; None when it does not say."""
        if self.task_instance is None or not has_supervisor():
            return None
        try:
            return await state_for_trigger(self.task_instance, self.max_tries)
        except Exception as err:
            self.log.warning("Airflow does not say whether somebody wants the end of the task: %s", err)
            return None

    async def _lives(self) -> bool:
        """Whether one of the jobs has not certainly ended."""
        return await watcher_for(self.ssh_conn_id, self.hostname).kills.lives(self.refs())

    async def _cancel(self, why: str, *, quick: bool = False) -> str:
        """Cancel what runs in the benchmark's directory, by id and by name; what came of it, in words."""
        if not (self.job_dir and self.job_name and self.benchmark):
            return "nothing to cancel: these jobs are only watched"
        kill = Kill(ChainPlace(self.benchmark, self.job_dir, self.job_name), tuple(self.job_ids))
        return await watcher_for(self.ssh_conn_id, self.hostname).kills.cancel(kill, why, quick=quick)

    async def _cancel_at_last(self) -> str:
        """Cancel for the deadline. A login node that is away is tried again for a while; the task tries once more.

        Not when the task waits no longer: a triggerer that hung for long may hold what another has gone on with.
        """
        state = await self._state()
        if state not in (None, WAITS):
            return f"not cancelled: the task waits for this job no longer ({state})"
        trouble = ""
        for attempt in range(_CANCEL_TRIES):
            try:
                return await self._cancel("execution_timeout is over")
            except (SlurmAuthenticationError, SlurmSettingsError) as err:
                return f"the job could not be cancelled: {err}"
            except SlurmTransportError as err:
                trouble = f"the job could not be cancelled: {err}"
                if attempt == 0:
                    self.log.warning("%s; trying again", trouble)
                await asyncio.sleep(min(2.0**attempt, 20.0))
        return trouble
