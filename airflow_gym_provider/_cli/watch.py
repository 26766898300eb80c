"""A run, looked at once or again and again: a row for each of its benchmarks, as `airflow gym status` shows it."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_gym_provider._cli.command import printable
from airflow_gym_provider._cli.find import FoundRun
from airflow_gym_provider.chain import Action, ChainLook, Decision, after_reading, decide
from airflow_gym_provider.results import Summary, Survey, Verdict, judge, parse_summary, recount, summary_body
from airflow_gym_provider.slurm.remote import RemoteScript

if TYPE_CHECKING:
    from airflow_gym_provider.hooks.slurm import SlurmHook

_RESUMING = "; resuming"
_BY_ITS_TASK = "; its task in Airflow goes on, if it has not been marked"
_BY_NOBODY = "; nobody resumes it"
_READ_TIMEOUT = 1800.0
_READ_AGAIN = 60.0
"""Seconds until rollouts that could not be read are read again: that may be gigabytes."""


class WatchedRun:
    """A run on the cluster. Each call of `rows` looks once; rollouts are read once, when their lines are all there."""

    def __init__(self, hook: SlurmHook, found: FoundRun) -> None:
        self.hook = hook
        self.found = found
        self._read: dict[str, tuple[Survey, Summary, float]] = {}
        self._missing: dict[str, float] = {}

    def rows(self) -> list[dict[str, Any]]:
        """What is known of each benchmark. Raises as `FoundRun.look` and SlurmHook.run.

        `rollouts_done` counts lines as long as a chain goes on, which costs one round trip for all benchmarks; of those
        that are done by their lines it is how many rollouts differ, for which they are read in another one.
        """
        look = self.found.look(self.hook, anybodys=True)
        for problem in look.problems:
            print(f"warning: {printable(problem)}", file=sys.stderr)
        judged = [(chain, *self._judged(chain)) for chain in (look.chains[p.benchmark] for p in self.found.places)]
        self._read_rollouts([chain for chain, _, decision in judged if _is_to_read(chain, decision)])
        return [self._row(chain, *self._counted(chain, verdict, decision)) for chain, verdict, decision in judged]

    def _judged(self, look: ChainLook) -> tuple[Verdict | None, Decision]:
        """By the lines of its results."""
        verdict = judge(look.survey, look.place.results) if look.survey is not None and look.place.results else None
        history = look.history(unknown_for=self._unknown_for(look))
        return verdict, decide(history, self.found.limits(look.place.benchmark), verdict)

    def _unknown_for(self, look: ChainLook) -> float:
        """Seconds for which Slurm has known nothing of the newest job, as far as this has seen it."""
        now = time.monotonic()
        missing = {job.ref.key for job in look.jobs[-1:] if job.missing}
        gone = {job.ref.key for job in look.jobs} - missing
        self._missing = {key: at for key, at in self._missing.items() if key not in gone}
        return max((now - self._missing.setdefault(key, now) for key in missing), default=0.0)

    def _counted(self, look: ChainLook, verdict: Verdict | None, decision: Decision) -> tuple[Verdict | None, Decision]:
        """By its rollouts, when these were read."""
        if verdict is None or look.place.results is None or not _is_to_read(look, decision):
            return verdict, decision
        verdict = recount(verdict, look.place.results, self._read[look.place.benchmark][1])
        return verdict, after_reading(decision, verdict)

    def _read_rollouts(self, looks: Sequence[ChainLook]) -> None:
        """Those that were not read yet, or have changed since, in one round trip."""
        wanted = [look for look in looks if not self._is_read(look)]
        if not wanted:
            return
        surveys = {look.place.benchmark: look.survey for look in wanted if look.survey is not None}
        paths = [survey.rollouts.path for survey in surveys.values()]
        script = RemoteScript.build("".join(map(summary_body, paths, map(str, range(len(paths))))), needs=())
        frames = script.frames(self.hook.run(script, _READ_TIMEOUT).stdout)
        for tag, (name, survey) in enumerate(surveys.items()):
            summary = parse_summary(frames, survey.rollouts.path, str(tag))
            self._read[name] = survey, summary, time.monotonic()

    def _is_read(self, look: ChainLook) -> bool:
        read = self._read.get(look.place.benchmark)
        if read is None:
            return False
        survey, summary, at = read
        return survey == look.survey and (not summary.problem or time.monotonic() < at + _READ_AGAIN)

    def _row(self, look: ChainLook, verdict: Verdict | None, decision: Decision) -> dict[str, Any]:
        limits = self.found.limits(look.place.benchmark)
        done = look.survey.done if look.survey else 0
        return {
            "benchmark": look.place.benchmark,
            "state": _state(look, decision, resumed_by_nobody=self.found.from_a_shell),
            "reason": decision.reason.replace(_RESUMING, _BY_NOBODY if self.found.from_a_shell else _BY_ITS_TASK),
            "jobs": [
                {
                    "job_id": job.ref.key,
                    "state": job.ending.value if job.ending else job.state,
                    "elapsed": job.elapsed,
                    "reason": job.reason,
                }
                for job in look.jobs
            ],
            "walltime_used": sum(job.elapsed for job in look.jobs),
            "max_walltime": limits.max_walltime,
            "rollouts_done": verdict.done if verdict is not None and verdict.looked else done,
            "rollouts_expected": look.survey.expected if look.survey else None,
            "metrics": dict(look.survey.metrics) if look.survey else {},
            "job_dir": look.place.job_dir,
        }


def _is_to_read(look: ChainLook, decision: Decision) -> bool:
    """Whether it is done by its lines, if it has any: a command of one's own need not write rollouts."""
    return decision.action is Action.DONE and look.survey is not None and look.survey.done > 0


def _state(look: ChainLook, decision: Decision, *, resumed_by_nobody: bool) -> str:
    """complete, stopped (over and red), ended (nobody goes on with it), resumable, queued, running, new or unknown."""
    if decision.action is Action.DONE:
        return "complete"
    if decision.action is Action.STOP:
        return "stopped"
    if decision.action is Action.ADOPT:
        newest = look.jobs[-1]
        return "queued" if newest.state.startswith("PENDING") else "running"
    if decision.action is Action.WAIT:
        return "unknown"
    if not look.jobs:
        return "new"
    return "ended" if resumed_by_nobody else "resumable"
