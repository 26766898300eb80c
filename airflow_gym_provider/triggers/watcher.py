"""One watcher for each login node and event loop: all waiting tasks share its connection and its one status call.

Promise: in one triggerer, at most one status call per interval and login node, whatever the number of tasks, over one
connection, with at most one handshake at a time; failing calls come less and less often, 10 minutes apart at last; a
login node that refuses us is not asked again. Limit: two triggerers have two watchers.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from weakref import WeakKeyDictionary

from airflow_gym_provider.hooks.slurm import SlurmHook
from airflow_gym_provider.slurm.progress import Progress
from airflow_gym_provider.slurm.remote import Answer, RemoteScript
from airflow_gym_provider.slurm.status import JobRef
from airflow_gym_provider.triggers.observe import Observation, look_there

LONGEST_INTERVAL = 600.0
_LINGER = 60.0
_FIRST_LOOK = 1.0
_JITTER = 0.2


class Subscription:
    """One task's part in a watcher: the jobs it waits for, and the latest look at them."""

    def __init__(self, refs: Sequence[JobRef], interval: float, progress: Mapping[str, Progress]) -> None:
        self.refs = tuple(refs)
        self.interval = interval
        self.progress = dict(progress)
        self._looks: asyncio.Queue[Observation] = asyncio.Queue(maxsize=1)

    async def next(self, timeout: float) -> Observation | None:
        """The next look; None when `timeout` seconds are over first."""
        try:
            return await asyncio.wait_for(self._looks.get(), timeout)
        except TimeoutError:
            return None

    def give(self, look: Observation) -> None:
        """Leave a look for the task. One that was not taken yet is replaced: only the latest counts."""
        if self._looks.full():
            self._looks.get_nowait()
        self._looks.put_nowait(look)
        self.progress.update({key: item for key, item in look.progress.items() if key in self.progress})


class Watcher:
    """See the module. Use `watcher_for`; a watcher made by hand shares nothing."""

    def __init__(self, hook: SlurmHook) -> None:
        self._hook = hook
        self._subscriptions: set[Subscription] = set()
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._looked_at = float("-inf")
        self._failures = 0
        self._spread = 1.0

    @contextmanager
    def subscribe(
        self, refs: Sequence[JobRef], interval: float, progress: Mapping[str, Progress] | None = None
    ) -> Iterator[Subscription]:
        """Take part until the block ends. `interval`: seconds, at least the connection's `poll_interval`."""
        subscription = Subscription(refs, interval, progress or {})
        self._subscriptions.add(subscription)
        self._changed.set()
        if self._task is None or self._task.done():
            # a context of its own: what the watcher logs belongs to no task, not to the first that came
            self._task = asyncio.get_running_loop().create_task(self._watch(), context=contextvars.Context())
        try:
            yield subscription
        finally:
            self._subscriptions.discard(subscription)
            self._changed.set()

    async def run(self, script: RemoteScript, timeout: float) -> Answer:
        """Run a script of one task over the shared connection, beside the status calls. Raises as SlurmHook.arun."""
        return await self._hook.arun(script, timeout)

    async def script_options(self) -> dict[str, Any]:
        """As `SlurmHook.script_options`."""
        await self._hook.aload()
        return self._hook.script_options

    # -- the loop -------------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        while True:
            while await self._pause():
                await self._look()
            await self._hook.aclose()
            self._hook.forget()
            if not self._subscriptions:  # nothing is awaited from here to the end: whoever comes next starts a new task
                return

    async def _pause(self) -> bool:
        """Wait until the next look is due; False when nobody has been waiting for a while."""
        begin = self._now()
        while True:
            self._changed.clear()
            now = self._now()
            due = begin + _LINGER
            if self._subscriptions:
                # the first look comes soon, but lets a crowd of tasks that start together gather
                due = max(self._looked_at + self._delay(), begin + min(_FIRST_LOOK, self._interval()))
            if now >= due:
                return bool(self._subscriptions)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), due - now)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()

    def _interval(self) -> float:
        return max(self._hook.poll_floor, min(subscription.interval for subscription in self._subscriptions))

    def _delay(self) -> float:
        if not self._failures:
            return self._interval()
        return max(self._interval(), min(self._interval() * 2.0**self._failures, LONGEST_INTERVAL) * self._spread)

    async def _look(self) -> None:
        taking_part = list(self._subscriptions)
        look = await self._ask(taking_part)
        self._looked_at = self._now()
        self._failures = min(self._failures + 1, 20) if look.slow_down else 0
        self._spread = 1 - random.uniform(0, _JITTER)  # noqa: S311
        if not look.statuses:
            self._hook.forget()
        for subscription in taking_part:
            subscription.give(look)
        if look.fatal is not None:
            # They leave by themselves. Without this, one that stays would have us knock again.
            self._subscriptions.difference_update(taking_part)

    async def _ask(self, taking_part: Sequence[Subscription]) -> Observation:
        refs = list({ref.key: ref for subscription in taking_part for ref in subscription.refs}.values())
        progress = {key: item for subscription in taking_part for key, item in subscription.progress.items()}
        return await look_there(self._hook, refs, progress)


_WATCHERS: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Any, Watcher]] = WeakKeyDictionary()


def watcher_for(ssh_conn_id: str | None, hostname: str | None) -> Watcher:
    """The one watcher of this event loop for that connection (or this machine)."""
    watchers = _WATCHERS.setdefault(asyncio.get_running_loop(), {})
    key = (ssh_conn_id, hostname if ssh_conn_id else None)
    if key not in watchers:
        watchers[key] = Watcher(SlurmHook(ssh_conn_id, hostname))
    return watchers[key]
