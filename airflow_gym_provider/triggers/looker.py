"""Looks at many jobs again and again over one connection, and remembers what need not be told, asked or read twice."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from airflow_gym_provider.exceptions import SlurmAuthenticationError, SlurmSettingsError, SlurmTransportError
from airflow_gym_provider.slurm.alive import LiveRows, Told, alive_script, read_alive
from airflow_gym_provider.slurm.progress import Progress, files_late, parse_progress, progress_body
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
        self._told = Told()
        self._healthy = False
        self._alive: set[str] = set()
        self._split: tuple[Mapping[str, JobRef], frozenset[str], tuple[list[JobRef], list[JobRef]]] | None = None

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
        alive, others = self._sorted(refs)
        healthy, self._healthy = self._healthy, False
        try:
            await self._hook.aload()
            write = partial(self._write, alive, others, progress, tails)
            script, answer = await self._hook.aask(write, LOOK_TIMEOUT, anew=not healthy)
            read = partial(self._read, refs=(alive, others), progress=progress, tails=tails)
            if len(answer.stdout) < _THREAD_FROM:
                look = read(script.frames(answer.stdout))
            else:
                look = await asyncio.to_thread(lambda: read(script.frames(answer.stdout)))
            self._healthy = not look.problems
            return look
        except (SlurmAuthenticationError, SlurmSettingsError) as err:
            return Observation.failed(err, fatal=True)
        except SlurmTransportError as err:
            return Observation.failed(err)
        except Exception as err:  # a bug, or a secrets backend that is away: tasks that wait must hear of it
            return Observation.failed(SlurmTransportError(f"the status call failed: {type(err).__name__}: {err}"))

    def _sorted(self, refs: Mapping[str, JobRef]) -> tuple[list[JobRef], list[JobRef]]:
        """Which jobs were alive, and which are others: as long as nothing ends, the same again."""
        if self._split is None or self._split[0] is not refs or self._split[1] != self._alive:
            alive = [ref for key, ref in refs.items() if key in self._alive]
            others = [ref for key, ref in refs.items() if key not in self._alive]
            self._split = (refs, frozenset(self._alive), (alive, others))
        return self._split[2]

    def _write(
        self,
        alive: list[JobRef],
        others: list[JobRef],
        progress: Mapping[str, Progress],
        tails: Mapping[str, LogTail],
        *,
        fresh: bool,
    ) -> RemoteScript:
        """What is asked of a shell: all of it of a fresh one, of one that stayed only what it has not been told."""
        if fresh:
            self._told = Told()
        parts = [_CLOCK, alive_script(alive, self._told), status_script(others)]
        parts += [progress_body(progress, self._told.once), tails_body(tails, self._told.once)]
        body = "\n".join(filter(None, parts))
        if not fresh:
            return RemoteScript.following(body)
        return RemoteScript.build(body, needs=("squeue",), stays=True, **self._hook.script_options)

    def _read(
        self,
        frames: Frames,
        refs: tuple[list[JobRef], list[JobRef]],
        progress: Mapping[str, Progress],
        tails: Mapping[str, LogTail],
    ) -> Observation:
        alive, others = refs
        clock = "".join(frame.text for frame in frames.named("clock")).strip()
        seconds = float(clock) if clock.isdecimal() else None
        new, direct = read_alive(alive, frames, self._live, self._told, seconds), parse_status(others, frames)
        statuses = new.jobs | direct.jobs
        for key, status in statuses.items():
            if status.known and status.live:
                self._alive.add(key)
            elif new.squeue_ok and direct.squeue_ok:
                self._alive.discard(key)
        counted = parse_progress(progress, frames)
        statuses |= self._with_clocks(counted, statuses, seconds)
        problems, slow_down = problems_of((*new.problems, *direct.problems))
        return Observation(
            statuses=statuses,
            progress=counted,
            tails=read_tails(tails, frames),
            answered=all((new.squeue_ok, new.sacct_ok, direct.squeue_ok, direct.sacct_ok)),
            problems=problems,
            late=files_late(frames),
            slow_down=slow_down,
            clock=seconds,
        )

    def _with_clocks(
        self, counted: Iterable[str], statuses: Mapping[str, JobStatus], clock: float | None
    ) -> dict[str, JobStatus]:
        """What is said of a count names the time a job has run: those that are unchanged have run on."""
        unchanged = (key for key in counted if key in self._live.statuses and key not in statuses)
        return {key: self._live.now(key, clock) for key in unchanged}
