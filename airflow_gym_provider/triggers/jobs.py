"""What a watcher keeps of one job, and of one task that waits for jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from airflow_gym_provider.slurm.progress import Progress
from airflow_gym_provider.slurm.states import State
from airflow_gym_provider.slurm.status import JobRef, JobStatus
from airflow_gym_provider.slurm.tails import LogTail
from airflow_gym_provider.triggers.observe import Observation
from airflow_gym_provider.triggers.pace import Outlook

COUNT_EVERY = 60.0
"""Seconds after which a job's rollouts are counted again, at the earliest."""
MOST_COUNTS = 48
"""Jobs whose rollouts one look counts: those whose last count is the oldest."""


class Subscription:
    """One task's part in a watcher: the jobs it waits for, and the latest look at them.

    `floor`: the shortest interval that the task's connection allows. `home`: whose connection that is.
    """

    __slots__ = ("_look", "_waiter", "floor", "home", "interval", "late", "problems", "progress", "refs", "tails")

    def __init__(
        self,
        refs: Sequence[JobRef],
        interval: float,
        progress: Mapping[str, Progress] | None = None,
        tails: Mapping[str, LogTail] | None = None,
    ) -> None:
        self.refs = tuple(refs)
        self.interval = interval
        self.floor = 0.0
        self.home: Any = None
        self.progress = dict(progress or {})
        self.tails = dict(tails or {})
        self.problems: tuple[str, ...] = ()
        self.late = ""
        self._look: Observation | None = None
        self._waiter: asyncio.Future[None] | None = None

    async def next(self, timeout: float) -> Observation | None:
        """The next look that has news; None when `timeout` seconds are over first."""
        if self._look is None:
            loop = asyncio.get_running_loop()
            self._waiter = loop.create_future()
            timer = loop.call_later(timeout, self._wake)
            try:
                await self._waiter
            finally:
                timer.cancel()
                self._waiter = None
        look, self._look = self._look, None
        return look

    def give(self, look: Observation) -> None:
        """Leave a look for the task. What was not taken yet is joined: the latest word on each job counts."""
        self._look = look if self._look is None else look.after(self._look)
        self.problems, self.late = look.problems, look.late
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class WatchedJob:
    """One job, whoever waits for it. `running`: whether it ran when it was last heard of."""

    __slots__ = ("counted_at", "outlook", "progress", "ref", "running", "tail", "tasks")

    def __init__(self, ref: JobRef, now: float) -> None:
        self.ref = ref
        self.tasks: list[Subscription] = []
        self.progress: Progress | None = None
        self.tail: LogTail | None = None
        self.counted_at = float("-inf")
        self.running = False
        self.outlook = Outlook(now)

    def join(self, task: Subscription, ref: JobRef) -> None:
        """One more task waits for it. Who knows more of the job says how it is told from others of its number."""
        self.tasks.append(task)
        if self.ref.job_dir is None and ref.job_dir is not None:
            self.ref = ref
        self.progress = self.progress or task.progress.get(ref.key)
        self.tail = self.tail or task.tails.get(ref.key)

    def take(self, look: Observation, now: float) -> bool:
        """Take in a look; whether there is something that its tasks should hear."""
        key, news = self.ref.key, False
        status = look.statuses.get(key)
        if status is not None:
            news = not status.known or not _alike(status, self.outlook.status)
            if not _alike(status, self.outlook.status):
                self.outlook.change(status, now, look.clock)
                self.running = status.state == State.RUNNING
        counted = look.progress.get(key)
        if counted is not None:
            news = news or counted != self.progress
            self.outlook.count(counted.done, counted.expected, self.progress.done if self.progress else 0, now)
            self.progress, self.counted_at = counted, now
        tail = look.tails.get(key)
        if tail is not None:
            self.tail, news = None if tail.refused else tail.tail, True
        return news


def _alike(one: JobStatus, other: JobStatus | None) -> bool:
    """Whether nothing but time has passed between two looks."""
    return other is not None and replace(one, elapsed=0, rows=()) == replace(other, elapsed=0, rows=())


def due_counts(jobs: Iterable[WatchedJob], now: float) -> dict[str, Progress]:
    """Whose rollouts the next look counts."""
    due = [job for job in jobs if job.running and job.progress is not None and now - job.counted_at >= COUNT_EVERY]
    due.sort(key=lambda job: job.counted_at)
    return {job.ref.key: job.progress for job in due[:MOST_COUNTS] if job.progress is not None}


def due_tails(jobs: Iterable[WatchedJob]) -> dict[str, LogTail]:
    """Whose logs the next look reads on."""
    return {job.ref.key: job.tail for job in jobs if job.tail is not None and job.running}
