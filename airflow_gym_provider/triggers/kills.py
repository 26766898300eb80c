"""Kills that come together: a thousand tasks marked at once are a few scripts on the login node, not a thousand.

The first goes at once; what comes while others are at work waits and goes together. Whoever asked may give up: its jobs
are cancelled all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from airflow_gym_provider.chain import ChainPlace, cancel_script, read_cancels
from airflow_gym_provider.slurm.keys import cluster_of
from airflow_gym_provider.slurm.remote import Answer, RemoteScript
from airflow_gym_provider.slurm.status import JobRef
from airflow_gym_provider.triggers.observe import look_request, read_answer

Q = TypeVar("Q")
A = TypeVar("A")

MOST_TOGETHER = 100
_AT_WORK = 3
_TIMEOUT = 120.0


class Runs(Protocol):
    """What is needed of a watcher."""

    async def run(self, script: RemoteScript, timeout: float) -> Answer:
        """As Watcher.run."""

    async def script_options(self) -> dict[str, Any]:
        """As Watcher.script_options."""


@dataclass(frozen=True)
class Kill:
    """A chain whose jobs are to be cancelled: where it is, and the ids ("60" or "60;c2") that its task knows."""

    place: ChainPlace
    job_ids: tuple[str, ...]

    @property
    def clusters(self) -> list[str]:
        """The clusters that the ids name."""
        return [cluster for key in self.job_ids if (cluster := cluster_of(key))]


class Together(Generic[Q, A]):
    """Asks `ask` for the answers to questions, at most 3 calls at a time, each with as many as are waiting (100)."""

    def __init__(self, ask: Callable[[Sequence[Q]], Awaitable[Sequence[A]]]) -> None:
        self._ask = ask
        self._waiting: list[tuple[Q, asyncio.Future[A]]] = []
        self._at_work: set[asyncio.Task[None]] = set()

    async def __call__(self, question: Q) -> A:
        """The answer; raises what the call that had this question raised."""
        future: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._waiting.append((question, future))
        if len(self._at_work) < _AT_WORK:
            task = asyncio.get_running_loop().create_task(self._work())
            self._at_work.add(task)
            task.add_done_callback(self._at_work.discard)
        return await future

    async def _work(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:MOST_TOGETHER], self._waiting[MOST_TOGETHER:]
            try:
                answers = await self._ask([question for question, _ in batch])
                for (_, future), answer in zip(batch, answers, strict=True):
                    if not future.done():
                        future.set_result(answer)
            except Exception as err:
                for _, future in batch:
                    if not future.done():
                        future.set_exception(err)


class Kills:
    """The kills over one watcher's connection. `quick`: see `chain.cancel_script`."""

    def __init__(self, watcher: Runs) -> None:
        self._watcher = watcher
        self._cancels: dict[tuple[str, bool], Together[Kill, str]] = {}
        self._lives: Together[Sequence[JobRef], bool] = Together(self._look)

    async def cancel(self, kill: Kill, why: str, *, quick: bool) -> str:
        """Cancel what runs of a chain, by id and by name; what came of it, in words. Raises as SlurmHook.arun, and
        ValueError for what cannot be a path or an id.
        """
        cancel_script([kill.place], why, job_ids=[kill.job_ids], clusters=kill.clusters)  # not to spoil it for others
        if (why, quick) not in self._cancels:
            self._cancels[why, quick] = Together(lambda kills: self._send(kills, why, quick))
        return await self._cancels[why, quick](kill)

    async def lives(self, refs: Sequence[JobRef]) -> bool:
        """Whether one of the jobs has not certainly ended. Raises as SlurmHook.arun."""
        return await self._lives(refs)

    async def _send(self, kills: Sequence[Kill], why: str, quick: bool) -> list[str]:
        script = cancel_script(
            [kill.place for kill in kills],
            why,
            job_ids=[kill.job_ids for kill in kills],
            clusters=[cluster for kill in kills for cluster in kill.clusters],
            quick=quick,
            **await self._watcher.script_options(),
        )
        answer = await self._watcher.run(script, _TIMEOUT)
        return [report.text for report in read_cancels(script, answer, len(kills))]

    async def _look(self, asked: Sequence[Sequence[JobRef]]) -> list[bool]:
        refs = list(dict.fromkeys(ref for each in asked for ref in each))
        script = look_request(refs, {}, await self._watcher.script_options())
        look = read_answer(script, await self._watcher.run(script, _TIMEOUT), refs, {})
        ended = {key for key, status in look.statuses.items() if status.known and not status.live}
        return [any(ref.key not in ended for ref in each) for each in asked]
