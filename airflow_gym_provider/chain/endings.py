"""What the end of one Slurm job means for its chain: one table, and the words for it."""

from __future__ import annotations

from enum import Enum

from airflow_gym_provider.slurm.jobs import JobStatus
from airflow_gym_provider.slurm.states import Ending

PROGRESS = 75
"""Exit code of an evaluation that got further but is not finished: go on, no retry counted."""
NOTHING_LEFT = 76
"""Exit code of an evaluation that is not finished and has nothing left that it may try again: stop."""


class Step(Enum):
    """Where a chain stands after a job has ended."""

    COMPLETED = "completed"
    FREE = "resume, counts for nothing"
    RETRY = "resume, one retry counted"
    NOTHING_LEFT = "stop, nothing left to retry"
    CANCELLED = "stop, somebody wanted that"
    OURS = "resume, the cancel was ours"
    INFRASTRUCTURE = "resubmit, it never began"
    LOST = "resume, nobody knows what became of it"


_FREE = {Ending.TIMEOUT, Ending.PREEMPTED, Ending.NODE_FAIL}


def step_of(job: JobStatus, *, ours: bool) -> Step:
    """The row of the table for a job that is not live. `ours`: Airflow asked for its end.

    CANCELLED by root at no elapsed time, unasked, is how a node that fails to start a job shows itself. A job with
    no known ending counts as lost: whether to believe that yet is for the caller.
    """
    if job.ending is None or job.ending is Ending.LOST:
        return Step.LOST
    if job.ending is Ending.COMPLETED:
        return Step.COMPLETED
    if job.ending in _FREE:
        return Step.FREE
    if job.ending is Ending.CANCELLED:
        return _cancelled(job, ours)
    if job.ending is Ending.FAILED and job.exit_code in (PROGRESS, NOTHING_LEFT):
        return Step.FREE if job.exit_code == PROGRESS else Step.NOTHING_LEFT
    return Step.RETRY


def _cancelled(job: JobStatus, ours: bool) -> Step:
    if ours:
        return Step.OURS
    if job.cancelled_by == 0 and job.elapsed == 0:
        return Step.INFRASTRUCTURE
    return Step.CANCELLED


def describe(job: JobStatus, compute: str = "<name>") -> str:
    """How the job ended, in Slurm's words: "TIMEOUT after 4:00:00", "FAILED 1:0", "CANCELLED by 1000"."""
    ending = job.ending
    if ending is None or ending is Ending.LOST:
        if job.runaway:
            known = f"squeue does not know it, and sacct has it {job.state} (see sacctmgr show runawayjobs)"
            return f"job {job.ref.job_id} is lost: {known}"
        return f"job {job.ref.job_id} is lost: neither squeue nor sacct knows it"
    if ending is Ending.CANCELLED:
        return "CANCELLED" if job.cancelled_by is None else f"CANCELLED by {job.cancelled_by}"
    if ending is Ending.OUT_OF_MEMORY:
        cure = f"raise the memory request: compute.{compute}.extra_args.mem"
        return f"OUT_OF_MEMORY after {clock(job.elapsed)} ({cure})"
    if ending in _FREE:
        return f"{ending.value} after {clock(job.elapsed)}"
    return f"{ending.value} {job.exit_code or 0}:{job.signal or 0}"


def clock(seconds: int) -> str:
    """Seconds as Slurm writes and reads a duration, hours not folded into days: 172800 is "48:00:00"."""
    minutes, rest = divmod(seconds, 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"
