"""What has happened in one chain so far: the evidence on which `decide` works.

Nothing here is remembered: it is read from the benchmark's directory and from Slurm each time it is needed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import takewhile

from airflow_gym_provider.chain.endings import Step, step_of
from airflow_gym_provider.slurm.jobs import JobStatus
from airflow_gym_provider.slurm.states import Ending

LOST_GRACE = 60
"""Seconds for which both squeue and sacct must have known nothing of a job before it counts as lost."""


BY_HAND = "by hand: "
"""How the `why` of a cancel begins that a person asked for through us: the chain stops, as after a scancel."""


@dataclass(frozen=True)
class CancelMark:
    """A cancel that went through us: when (epoch seconds of the cluster), which job ids, and why (for people)."""

    at: int
    jobs: tuple[str, ...]
    why: str

    @property
    def by_hand(self) -> bool:
        """Whether a person wanted the chain's end, and not Airflow that of a try."""
        return self.why.startswith(BY_HAND)


@dataclass(frozen=True)
class ChainHistory:
    """Every job of one chain, oldest first, and what is known beside them.

    `base`: jobs before this index belong to an earlier budget (the task was cleared since) and count for nothing, but
    a live one among them is still the chain's job. `unknown_for`: seconds for which the newest job has been missing in
    squeue and sacct, as its watcher has seen it (0: only just now). `wait`: seconds until a submission that was cut off
    may be judged, None when there is none. `recorded_walltime` and `recorded_retries`: the counters in the dot-files,
    of the jobs before the newest: what counts when accounting has forgotten one of those.
    """

    jobs: tuple[JobStatus, ...] = ()
    base: int = 0
    marks: tuple[CancelMark, ...] = ()
    unknown_for: float = 0
    wait: int | None = None
    recorded_walltime: int = 0
    recorded_retries: int = 0

    @property
    def newest(self) -> JobStatus | None:
        """The chain's last job, of whichever budget."""
        return self.jobs[-1] if self.jobs else None

    @property
    def live(self) -> JobStatus | None:
        """The newest job that is certainly queued or running; None when there is none."""
        return next((job for job in reversed(self.jobs) if job.live and job.known), None)

    @property
    def lost(self) -> bool:
        """Whether the newest job is lost: missing for longer than LOST_GRACE, or told so by its watcher."""
        job = self.newest
        return job is not None and (job.ending is Ending.LOST or (job.missing and self.unknown_for >= LOST_GRACE))

    @property
    def counted(self) -> tuple[JobStatus, ...]:
        """The jobs of the present budget."""
        return self.jobs[self.base :]

    @property
    def unanswered(self) -> bool:
        """Whether Slurm could not say how an earlier job of this budget ended, so that no sum is right."""
        return any(not job.known and not job.missing for job in self.counted[:-1])

    @property
    def forgotten(self) -> bool:
        """Whether Slurm no longer knows an earlier job of this budget (accounting is purged at many sites)."""
        return any(not job.known for job in self.counted[:-1])

    @property
    def used(self) -> int:
        """Seconds that the jobs of this budget ran together, every requeued attempt included."""
        total = sum(job.elapsed for job in self.counted)
        newest = self.counted[-1].elapsed if self.counted else 0
        return max(total, self.recorded_walltime + newest) if self.forgotten else total

    @property
    def retries(self) -> int:
        """Failures of this budget that count against `max_retries`.

        A COMPLETED job that has a successor was incomplete, hence counts; whether a COMPLETED newest one does is for
        its results to say.
        """
        failed = sum(step is Step.RETRY for step in self._steps())
        total = failed + sum(job.ending is Ending.COMPLETED for job in self.counted[:-1])
        if not self.forgotten:
            return total
        newest = self.counted[-1]
        return max(total, self.recorded_retries + (not newest.live and self.step(newest) is Step.RETRY))

    @property
    def before(self) -> tuple[int, int]:
        """`used` and `retries` without the newest job: what the counters in the dot-files say once it is recorded."""
        if not self.counted:
            return 0, 0
        newest = self.counted[-1]
        failed = not newest.live and self.step(newest) is Step.RETRY
        return self.used - newest.elapsed, self.retries - failed

    @property
    def resubmits(self) -> int:
        """Jobs of this budget that Slurm's administrator or a failing node cancelled before they began."""
        return sum(step is Step.INFRASTRUCTURE for step in self._steps())

    @property
    def lost_in_a_row(self) -> int:
        """How many of the newest jobs, without a break, were lost."""
        return sum(1 for _ in takewhile(lambda step: step is Step.LOST, reversed(list(self._steps()))))

    def step(self, job: JobStatus) -> Step:
        """What the ending of `job` means for the chain. Only for a job that is not live."""
        mark = self.mark_of(job)
        if mark is not None and mark.by_hand and job.ending is Ending.CANCELLED:
            return Step.CANCELLED  # also of a job that never began, whoever's uid it was
        return step_of(job, ours=mark is not None and not mark.by_hand)

    def cancelled_by_us(self, job: JobStatus) -> CancelMark | None:
        """The mark that names this job, if we asked for its end; the latest when there are several."""
        mark = self.mark_of(job)
        return None if mark is not None and mark.by_hand else mark

    def mark_of(self, job: JobStatus) -> CancelMark | None:
        """The latest mark that names this job, whoever wanted its end."""
        return next((mark for mark in reversed(self.marks) if job.ref.job_id in mark.jobs), None)

    def _steps(self) -> Iterable[Step]:
        return (self.step(job) for job in self.counted if not job.live)
