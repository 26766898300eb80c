"""One watcher for each login node, account and event loop: all waiting tasks share its connection and status call.

Promise: in one triggerer, at most one status call per interval, login node and account, whatever the number of tasks
and under however many connection ids, over one connection, with at most one handshake at a time; failing calls come
less and less often, 10 minutes apart at last; a login node that refuses us is not asked again. How long the interval is
says `pace`. Limit: two triggerers have two watchers.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from weakref import WeakKeyDictionary

from airflow_gym_provider.exceptions import SlurmTransportError
from airflow_gym_provider.hooks.slurm import SlurmHook
from airflow_gym_provider.slurm.progress import Progress
from airflow_gym_provider.slurm.remote import Answer, RemoteScript
from airflow_gym_provider.slurm.status import JobRef
from airflow_gym_provider.slurm.tails import LogTail
from airflow_gym_provider.triggers.jobs import Subscription, WatchedJob, due_counts, due_tails
from airflow_gym_provider.triggers.kills import Kills
from airflow_gym_provider.triggers.looker import Looker
from airflow_gym_provider.triggers.observe import Observation
from airflow_gym_provider.triggers.pace import LONGEST_INTERVAL, MOST, NOW, next_wait, soonest

_log = logging.getLogger(__name__)
_LINGER = 60.0
_FIRST_LOOK = 1.0
_JITTER = 0.2
_AT_ONCE = 25  # tasks that are woken before others of the event loop have their turn


class Watcher:
    """See the module. Use `watcher_for`; a watcher made by hand shares nothing.

    :param places: watchers by what their connections say, of this event loop: the first of a place serves them all.
    """

    def __init__(self, hook: SlurmHook, places: dict[Any, Watcher] | None = None) -> None:
        self.kills = Kills(self)
        self._hook = hook
        self._looker = Looker(hook)
        self._places = {} if places is None else places
        self._tasks: set[Subscription] = set()
        self._jobs: dict[str, WatchedJob] = {}
        self._refs: dict[str, JobRef] | None = None  # of all jobs, until those change
        self._new: set[str] = set()  # jobs of which no look has brought anything yet
        self._pace: tuple[float, float] | None = (
            None  # what the tasks ask for and their floors allow, until those change
        )
        self._loop_task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._own_floor = 0.0
        self._guests = 0
        self._looked_at = float("-inf")
        self._failures = 0
        self._spread = 1.0
        self._wait = 0.0

    @contextmanager
    def subscribe(
        self,
        refs: Sequence[JobRef],
        interval: float,
        progress: Mapping[str, Progress] | None = None,
        tails: Mapping[str, LogTail] | None = None,
    ) -> Iterator[Subscription]:
        """Take part until the block ends. `interval`: seconds, at least the connection's `poll_interval`."""
        task = Subscription(refs, interval, progress, tails)
        task.home = self
        self._join(task)
        try:
            yield task
        finally:
            for watcher in {self, *self._places.values()}:
                watcher._leave(task)

    async def run(self, script: RemoteScript, timeout: float) -> Answer:
        """Run a script of one task over the shared connection, beside the status calls. Raises as SlurmHook.arun."""
        await self._hook.aload()
        host = self._places.setdefault(self._hook.place, self)
        host._guests += 1
        host._start()
        try:
            return await host._hook.arun(script, timeout)
        finally:
            host._guests -= 1
            host._changed.set()

    async def script_options(self) -> dict[str, Any]:
        """As `SlurmHook.script_options`."""
        await self._hook.aload()
        return self._hook.script_options

    # -- who takes part -------------------------------------------------------------------------------------------

    def _join(self, task: Subscription) -> None:
        self._tasks.add(task)
        self._refs = self._pace = None
        for ref in task.refs:
            if ref.key not in self._jobs:
                self._jobs[ref.key] = WatchedJob(ref, self._now())
                self._new.add(ref.key)
            self._jobs[ref.key].join(task, ref)
        self._changed.set()
        self._start()

    def _leave(self, task: Subscription) -> None:
        if task not in self._tasks:
            return
        self._tasks.discard(task)
        self._refs = self._pace = None
        for ref in task.refs:
            job = self._jobs[ref.key]
            job.tasks.remove(task)
            if not job.tasks:
                del self._jobs[ref.key]
                self._new.discard(ref.key)
                self._looker.forget([ref.key])
        self._changed.set()

    def _start(self) -> None:
        if self._loop_task is None or self._loop_task.done():
            # a context of its own: what the watcher logs belongs to no task, not to the first that came
            self._loop_task = asyncio.get_running_loop().create_task(self._watch(), context=contextvars.Context())

    async def _find_place(self) -> bool:
        """Whether the tasks are ours to serve. They are not when another watcher has this login node and account; and
        tasks that another one has left to us go back when our connection has come to say something else.
        """
        try:
            await self._hook.aload()
        except Exception:
            return True  # the look fails with the same, in words for the tasks
        host = self._places.setdefault(self._hook.place, self)
        if self._pace is None or self._hook.poll_floor != self._own_floor:
            self._own_floor, self._pace = self._hook.poll_floor, None
            for task in self._tasks:
                if task.home is self:
                    task.floor = self._own_floor
        if host is not self:
            self._hook.forget()
            for task in list(self._tasks):
                self._leave(task)
                host._join(task)
            return False
        for place in [place for place, owner in self._places.items() if owner is self and place != self._hook.place]:
            del self._places[place]
            for task in [task for task in self._tasks if task.home is not self]:
                self._leave(task)
                task.home._join(task)
        return True

    # -- the loop -------------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        while True:
            while await self._is_wanted():
                pass
            await self._hook.aclose()
            self._hook.forget()
            if not self._tasks and not self._guests:
                # nothing is awaited from here to the end: whoever comes next starts a new task
                for place in [place for place, owner in self._places.items() if owner is self]:
                    del self._places[place]
                return

    async def _is_wanted(self) -> bool:
        """Pause, and look; False when nobody has been waiting for a while."""
        try:
            if not await self._pause():
                return False
            if await self._find_place():
                await self._look()
        except Exception as err:  # a bug: tasks that wait must hear of it, and are not to hang
            _log.exception("a look went wrong")
            self._looked_at, self._failures = self._now(), min(self._failures + 1, 20)
            for task in self._tasks:
                task.give(Observation.failed(SlurmTransportError(f"a look went wrong: {err!r}")))
            await asyncio.sleep(_FIRST_LOOK)  # also when it is the pause that goes wrong
        return True

    async def _pause(self) -> bool:
        """Wait until the next look is due; False when nobody has been waiting for a while."""
        begin = self._now()
        while True:
            self._changed.clear()
            now = self._now()
            due = begin + _LINGER
            if self._tasks:
                # the first look comes soon, but lets a crowd of tasks that start together gather
                due = max(self._looked_at + self._delay(), begin + min(_FIRST_LOOK, self._interval()))
            elif self._guests:
                due = now + _LINGER
            if now >= due:
                return bool(self._tasks)
            with suppress(TimeoutError):
                # not wait_for, which on Python 3.11 may lose the end of this task when something changes with it
                async with asyncio.timeout(due - now):
                    await self._changed.wait()

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()

    def _asked_pace(self) -> tuple[float, float]:
        """The shortest interval that a task asks for, and the longest floor of their connections."""
        if self._pace is None:
            tasks = self._tasks
            self._pace = (min(task.interval for task in tasks), max(task.floor for task in tasks)) if tasks else (0, 0)
        return self._pace

    def _floor(self) -> float:
        return max(self._hook.poll_floor, self._asked_pace()[1])

    def _interval(self) -> float:
        return max(self._floor(), self._asked_pace()[0])

    def _delay(self) -> float:
        interval = self._interval()
        if self._failures:
            return max(interval, min(interval * 2.0**self._failures, LONGEST_INTERVAL) * self._spread)
        if self._new:
            return max(self._floor(), interval / MOST)
        return min(self._wait or interval, interval * MOST)

    async def _look(self) -> None:
        now, jobs = self._now(), dict(self._jobs)
        if self._refs is None:
            self._refs = {key: job.ref for key, job in jobs.items()}
        look = await self._looker.look(self._refs, due_counts(jobs.values(), now), due_tails(jobs.values()))
        self._looked_at = now = self._now()
        self._failures = min(self._failures + 1, 20) if look.slow_down else 0
        self._spread = 1 - random.uniform(0, _JITTER)  # noqa: S311
        if not look.reached:
            self._hook.forget()
        if look.fatal is not None:
            # They leave by themselves. Without this, one that stays would have us knock again.
            for task in list(self._tasks):
                task.give(look)
                self._leave(task)
            return
        await self._tell(look, jobs, now)

    async def _tell(self, look: Observation, jobs: Mapping[str, WatchedJob], now: float) -> None:
        touched = look.statuses.keys() | look.progress.keys() | look.tails.keys()
        self._new -= look.statuses.keys()
        news = [job for key in touched if (job := jobs.get(key)) is not None and job.take(look, now)]
        hearing = {task for job in news for task in job.tasks}
        hearing.update(task for task in self._tasks if (task.problems, task.late) != (look.problems, look.late))
        if self._tasks:
            interval = self._interval()
            outlooks = (job.outlook for job in self._jobs.values())
            # nothing is gained by looking further once it is clear that the interval can neither grow nor shrink
            enough = interval if self._floor() >= interval else NOW
            quiet = soonest(outlooks, now, interval, enough)
            self._wait = next_wait(self._wait, interval, self._floor(), quiet, changed=bool(news))
        for number, task in enumerate(hearing):
            task.give(look)
            if number % _AT_ONCE == _AT_ONCE - 1:
                await asyncio.sleep(0)


_WATCHERS: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[dict[Any, Watcher], dict[Any, Watcher]]] = (
    WeakKeyDictionary()
)


def watcher_for(ssh_conn_id: str | None, hostname: str | None) -> Watcher:
    """The one watcher of this event loop for that connection (or this machine)."""
    watchers, places = _WATCHERS.setdefault(asyncio.get_running_loop(), ({}, {}))
    key = (ssh_conn_id, hostname if ssh_conn_id else None)
    if key not in watchers:
        watchers[key] = Watcher(SlurmHook(ssh_conn_id, hostname), places)
    return watchers[key]
