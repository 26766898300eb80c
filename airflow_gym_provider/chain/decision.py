"""What to do next with a chain. Pure: evidence in, one decision with its reason out.

The table (see `endings.step_of` for the rows): time limit, preemption, failed node and exit code 75 go on for free;
a failure costs one of `max_retries`; a cancel by somebody stops the chain; a job that never began or that nobody knows
any more is replaced at most three times; COMPLETED counts only with complete results.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

from airflow_gym_provider.chain.endings import Step, clock, describe
from airflow_gym_provider.chain.history import LOST_GRACE, ChainHistory
from airflow_gym_provider.chain.limits import Limits
from airflow_gym_provider.slurm.jobs import JobStatus
from airflow_gym_provider.slurm.states import Ending

MAX_RESUBMITS = 3
"""Most jobs of one budget that are replaced because they never began."""
MAX_LOST = 3
"""Most jobs in a row that are replaced because Slurm lost them."""
_LOOK_AGAIN = 30
_RESULTS_AGAIN = 5


class Judgement(Protocol):
    """What is needed of a results verdict: whether the results are all there, and how many in words."""

    @property
    def complete(self) -> bool:
        """Whether the results suffice for success."""

    @property
    def looked(self) -> bool:
        """False when the results could not be looked at, which says nothing about them."""

    @property
    def reason(self) -> str:
        """Counts and path, such as "97 of 100 rollouts in <path>"."""


class Action(StrEnum):
    """What the caller has to do."""

    SUBMIT = "submit"
    ADOPT = "adopt"
    DONE = "done"
    STOP = "stop"
    WAIT = "wait"


@dataclass(frozen=True)
class Decision:
    """What to do, why (for people), and the numbers behind it.

    `job_id`: the job the decision is about (the live one for ADOPT, else the newest). `walltime`: seconds for the next
    job's time limit, None to leave the job script's own. `wait`: seconds after which to look again (WAIT only).
    `used`, `retries`, `resubmits`: what the present budget has spent so far; `before`: the first two without the newest
    job.
    """

    action: Action
    reason: str
    job_id: str | None = None
    ending: Ending | None = None
    walltime: int | None = None
    wait: int | None = None
    used: int = 0
    retries: int = 0
    resubmits: int = 0
    before: tuple[int, int] = (0, 0)


def decide(
    history: ChainHistory, limits: Limits, verdict: Judgement | None = None, *, settled: bool = True
) -> Decision:
    """The next step of a chain.

    A live job is always adopted, whatever the limits say. What is unknown is waited for, never judged. `verdict` is
    about the results as they lie there now; without one a COMPLETED job is waited for. `settled`: the caller has given
    slow file systems their time, so that incomplete results are a failure and not merely late.
    """
    return _Case(history, limits, verdict, settled).decide()


def after_reading(decision: Decision, verdict: Judgement) -> Decision:
    """What a chain that is DONE by the lines of its results is by the `verdict` once these have been read.

    DONE still; STOP when they do not add up, for another job would find as many lines and leave them as they are; WAIT
    when they could not be read, which says nothing about them.
    """
    told = f"{decision.reason.partition('; ')[0]}; {verdict.reason}"
    if verdict.complete:
        return replace(decision, reason=told)
    if verdict.looked:
        return replace(decision, action=Action.STOP, reason=f"{told}; chain stopped")
    return replace(decision, action=Action.WAIT, reason=told, wait=_LOOK_AGAIN)


def _jobs(count: int) -> str:
    return "an earlier job" if count == 1 else f"{count} earlier jobs"


@dataclass(frozen=True)
class _Case:
    """One decision being made."""

    history: ChainHistory
    limits: Limits
    verdict: Judgement | None
    settled: bool

    def decide(self) -> Decision:
        job = self.history.newest
        live = self.history.live
        if live is not None:
            return self._say(Action.ADOPT, f"job {live.ref.job_id} is {live.state}", job_id=live.ref.job_id)
        if self.history.wait is not None:
            reason = "a submission was cut off; waiting until Slurm has certainly shown the job it may have made"
            return self._say(Action.WAIT, reason, wait=self.history.wait)
        if job is not None and not job.known and not self.history.lost:
            return self._unclear(job)
        if not self.history.counted or job is None:
            return self._first()
        if self.history.unanswered:
            reason = "Slurm does not say how long the chain's jobs ran; waiting for its answer"
            return self._say(Action.WAIT, reason, wait=_LOOK_AGAIN)
        return self._ended(job)

    def _unclear(self, job: JobStatus) -> Decision:
        if job.missing:
            rest = math.ceil(LOST_GRACE - self.history.unknown_for)
            reason = f"job {job.ref.job_id} is unknown to squeue and sacct; lost if it stays so for {LOST_GRACE} s"
            return self._say(Action.WAIT, reason, wait=rest)
        reason = f"Slurm does not say yet how it stands with job {job.ref.job_id}"
        return self._say(Action.WAIT, f"{reason} ({job.state})" if job.state else reason, wait=_LOOK_AGAIN)

    def _first(self) -> Decision:
        if self.history.jobs:
            return self._submit(f"cleared: a new budget, on top of what {_jobs(len(self.history.jobs))} left; starting")
        return self._submit("no job yet; starting")

    def _ended(self, job: JobStatus) -> Decision:
        step = self.history.step(job)
        if step is Step.COMPLETED:
            return self._completed(job)
        how = describe(job, self.limits.compute)
        mark = self.history.mark_of(job)
        if step is Step.CANCELLED:
            told = f" ({mark.why})" if mark is not None else ""
            return self._stop(how + told, "chain stopped")
        if step is Step.NOTHING_LEFT:
            return self._stop(how, "nothing left to retry; chain stopped")
        if step is Step.OURS and mark is not None:
            how += f", on our request ({mark.why})"
        if not self.limits.resumable:
            return self._stop(how, "not resumable, so it does not run again")
        if step is Step.RETRY:
            return self._retry(how)
        return self._resume(job, step, how)

    def _completed(self, job: JobStatus) -> Decision:
        if self.verdict is None:
            return self._say(Action.WAIT, "COMPLETED; its results have not been looked at", wait=0)
        if self.verdict.complete:
            return self._say(Action.DONE, f"COMPLETED after {clock(job.elapsed)}; {self.verdict.reason}")
        how = f"COMPLETED but incomplete: {self.verdict.reason}"
        if not self._short:
            return self._say(Action.WAIT, f"{how}; looking again", wait=_RESULTS_AGAIN)
        if not self.limits.resumable:
            return self._stop(how, "not resumable, so it does not run again")
        return self._retry(how)

    def _retry(self, how: str) -> Decision:
        most = self.limits.max_retries
        if self._retries > most:
            used = {0: "max_retries is 0", 1: "its only retry is used"}.get(most, f"all {most} retries are used")
            return self._stop(how, f"{used}; chain stopped")
        return self._go_on(how, f"retry {self._retries} of {most}")

    def _resume(self, job: JobStatus, step: Step, how: str) -> Decision:
        if step is Step.INFRASTRUCTURE:
            how += " before it began, and nobody here asked for that"
            return self._bounded(how, self.history.resubmits, MAX_RESUBMITS, "resubmitting")
        if step is Step.LOST:
            return self._bounded(how, self.history.lost_in_a_row, MAX_LOST, "resuming")
        if job.ending is Ending.FAILED:
            how += " (progress made)"
        return self._go_on(how, f"{self._sum()} used; resuming")

    def _bounded(self, how: str, count: int, most: int, verb: str) -> Decision:
        if count > most:
            return self._stop(how, f"that was no. {count}; chain stopped")
        return self._go_on(how, f"{verb} ({count} of {most})")

    def _go_on(self, how: str, verb: str) -> Decision:
        rest, cap = self.limits.rest(self.history.used), self.limits.max_walltime
        if rest is not None and rest <= 0:
            text = f"max_walltime is used up: {self._sum()} ({self.history.used} s of {cap} s); chain stopped"
            return self._stop(how, text)
        return self._submit(f"{how}; {verb}")

    def _sum(self) -> str:
        cap = self.limits.max_walltime
        return clock(self.history.used) + ("" if cap is None else f" of {clock(cap)}")

    def _submit(self, reason: str) -> Decision:
        return self._say(Action.SUBMIT, reason, walltime=self.limits.next_walltime(self.history.used))

    def _stop(self, how: str, reason: str) -> Decision:
        return self._say(Action.STOP, f"{how}; {reason}")

    def _say(
        self,
        action: Action,
        reason: str,
        *,
        job_id: str | None = None,
        walltime: int | None = None,
        wait: int | None = None,
    ) -> Decision:
        newest = self.history.newest
        return Decision(
            action=action,
            reason=reason,
            job_id=job_id or (newest.ref.job_id if newest else None),
            ending=newest.ending if newest else None,
            walltime=walltime,
            wait=wait,
            used=self.history.used,
            retries=self._retries,
            resubmits=self.history.resubmits,
            before=self.history.before,
        )

    @property
    def _retries(self) -> int:
        """Retries spent; a COMPLETED newest job with incomplete results costs one."""
        newest = self.history.newest
        completed = newest is not None and newest.ending is Ending.COMPLETED and bool(self.history.counted)
        return self.history.retries + (completed and self._short)

    @property
    def _short(self) -> bool:
        """Whether the results are certainly incomplete: looked at, with slow file systems given their time."""
        return self.verdict is not None and not self.verdict.complete and self.verdict.looked and self.settled
