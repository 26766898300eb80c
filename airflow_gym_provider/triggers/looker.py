"""Looks at many jobs again and again over one connection, and remembers what need not be asked or read twice."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from airflow_gym_provider.exceptions import SlurmAuthenticationError, SlurmSettingsError, SlurmTransportError
from airflow_gym_provider.slurm.alive import LiveRows, alive_script, read_alive
from airflow_gym_provider.slurm.progress import Progress, parse_progress, progress_body
from airflow_gym_provider.slurm.remote import Frames, RemoteScript
from airflow_gym_provider.slurm.status import JobRef, JobStatus, parse_status, status_script
from airflow_gym_provider.slurm.tails import LogTail, read_tails, tails_body
from airflow_gym_provider.triggers.observe import LOOK_TIMEOUT, Observation, problems_of

if TYPE_CHECKING:
    from airflow_gym_provider.hooks.slurm import SlurmHook

_CLOCK = "frame clock\nprintf '%(%s)T\\n' -1"
_THREAD_FROM = 100_000  # bytes of an answer: reading those would hold the event loop for more than a few milliseconds


class Looker:
    """One look after the other. Not to be used by two tasks at once."""

    def __init__(self, hook: SlurmHook) -> None:
        self._hook = hook
        self._live = LiveRows()
        self._alive: set[str] = set()
        self._asked: tuple[Mapping[str, JobRef], frozenset[str], tuple[list[JobRef], list[JobRef], str]] | None = None

    def forget(self, keys: Iterable[str]) -> None:
        """Jobs that nobody waits for any more."""
        for key in keys:
            self._alive.discard(key)
            self._live.forget(key)

    async def look(
        self, refs: Mapping[str, JobRef], progress: Mapping[str, Progress], tails: Mapping[str, LogTail]
    ) -> Observation:
        """One look at `refs` (by key), in one round trip. Never raises: whatever goes wrong is an outage as well, for
        nobody must hang on it. Statuses that have not changed are left out.
        """
        try:
            await self._hook.aload()
            alive, others, asking = self._ask(refs)
            body = "\n".join(filter(None, [_CLOCK, asking, progress_body(progress), tails_body(tails)]))
            script = RemoteScript.build(body, needs=("squeue",), **self._hook.script_options)
            answer = await self._hook.arun(script, LOOK_TIMEOUT)
            read = partial(self._read, refs=(alive, others), progress=progress, tails=tails)
            if len(answer.stdout) < _THREAD_FROM:
                return read(script.frames(answer.stdout))
            return await asyncio.to_thread(lambda: read(script.frames(answer.stdout)))
        except (SlurmAuthenticationError, SlurmSettingsError) as err:
            return Observation.failed(err, fatal=True)
        except SlurmTransportError as err:
            return Observation.failed(err)
        except Exception as err:  # a bug, or a secrets backend that is away: tasks that wait must hear of it
            return Observation.failed(SlurmTransportError(f"the status call failed: {type(err).__name__}: {err}"))

    def _ask(self, refs: Mapping[str, JobRef]) -> tuple[list[JobRef], list[JobRef], str]:
        """Which jobs were alive, which are others, and what asks for them: as long as nothing ends, the same again."""
        if self._asked is None or self._asked[0] is not refs or self._asked[1] != self._alive:
            alive = [ref for key, ref in refs.items() if key in self._alive]
            others = [ref for key, ref in refs.items() if key not in self._alive]
            asking = "\n".join(filter(None, [alive_script(alive), status_script(others)]))
            self._asked = (refs, frozenset(self._alive), (alive, others, asking))
        return self._asked[2]

    def _read(
        self,
        frames: Frames,
        refs: tuple[list[JobRef], list[JobRef]],
        progress: Mapping[str, Progress],
        tails: Mapping[str, LogTail],
    ) -> Observation:
        alive, others = refs
        new, direct = read_alive(alive, frames, self._live), parse_status(others, frames)
        statuses = new.jobs | direct.jobs
        for key, status in statuses.items():
            if status.known and status.live:
                self._alive.add(key)
            elif new.squeue_ok and direct.squeue_ok:
                self._alive.discard(key)
        counted = parse_progress(progress, frames)
        statuses |= self._with_clocks(counted, statuses)
        clock = "".join(frame.text for frame in frames.named("clock")).strip()
        problems, slow_down = problems_of((*new.problems, *direct.problems))
        return Observation(
            statuses=statuses,
            progress=counted,
            tails=read_tails(tails, frames),
            answered=all((new.squeue_ok, new.sacct_ok, direct.squeue_ok, direct.sacct_ok)),
            problems=problems,
            slow_down=slow_down,
            clock=float(clock) if clock.isdecimal() else None,
        )

    def _with_clocks(self, counted: Iterable[str], statuses: Mapping[str, JobStatus]) -> dict[str, JobStatus]:
        """What is said of a count names the time a job has run: those that are unchanged need their clock read."""
        return {key: self._live.now(key) for key in counted if key in self._live.statuses and key not in statuses}
