"""From what squeue and sacct say of one job to one status. Pure; the rules are the table in `JobStatus`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from airflow_gym_provider.slurm.accounting import JobRow
from airflow_gym_provider.slurm.jobs import JobRef, JobStatus
from airflow_gym_provider.slurm.ownership import newest, own_queue_rows, own_records
from airflow_gym_provider.slurm.queue import QueueRow
from airflow_gym_provider.slurm.states import State, ending_of, is_live
from airflow_gym_provider.slurm.times import epoch

__all__ = ["Asked", "settle"]

_Row = TypeVar("_Row", QueueRow, JobRow)


@dataclass(frozen=True)
class Asked:
    """Which of the two could be relied on this time. `accounting` False: the site keeps none."""

    squeue_ok: bool
    sacct_ok: bool
    accounting: bool = True


def settle(ref: JobRef, queue: Sequence[QueueRow], records: Sequence[JobRow], asked: Asked) -> JobStatus:
    """The status of `ref` from every row that either tool printed, other jobs' included. Never raises.

    Rows of a tool that failed are not used: the one that matters may be among those that are missing.
    """
    mine = own_queue_rows(ref, queue) if asked.squeue_ok else []
    history = own_records(ref, records) if asked.sacct_ok else []
    ours, record = _deciding(mine), _newest_deciding(history)
    base = _described(ref, ours, record, history)
    if ours and is_live(ours.state):
        return replace(base, known=True)
    if ours:
        return _ended(base, ours.state, _end_in_queue_is_sure(ours, record, asked))
    if record and not is_live(record.state):
        # A requeued job looks ended in accounting for a while: without squeue only one end is sure.
        sure = asked.squeue_ok or record.state == State.COMPLETED
        return replace(_ended(base, record.state, sure), live=not sure)
    both = asked.squeue_ok and (asked.sacct_ok or not asked.accounting)
    missing = both and record is None
    return replace(base, live=not missing, missing=missing, runaway=both and not missing)


def _end_in_queue_is_sure(ours: QueueRow, record: JobRow | None, asked: Asked) -> bool:
    """Whether an end that squeue shows needs no word from accounting, which knows the exit code and the steps.

    While accounting is away the one end that nothing can change is sure; on a site without accounting every end is.
    """
    if record is not None:
        return record.state == ours.state
    return not asked.accounting or (not asked.sacct_ok and ours.state == State.COMPLETED)


def _ended(status: JobStatus, state: str, sure: bool) -> JobStatus:
    if not sure:
        return replace(status, live=False, known=False)
    ended = replace(status, live=False, known=True, ending=ending_of(state))
    return replace(ended, exit_code=0, signal=0) if state == State.COMPLETED else ended


def _deciding(rows: Sequence[_Row]) -> _Row | None:
    """The part that decides for the whole job: a live one, else one that went wrong, else the first."""
    parts = sorted(_standing(rows), key=_part_order)
    live = [row for row in parts if is_live(row.state)]
    bad = [row for row in parts if row.state != State.COMPLETED]
    return next(iter(live or bad or parts), None)


def _newest_deciding(history: Sequence[JobRow]) -> JobRow | None:
    return _deciding([newest(group) for group in _parts(_standing(history)).values()])


def _standing(rows: Sequence[_Row]) -> Sequence[_Row]:
    """The rows that say how it stands with the job. Of one that a federation gave to several clusters, one has it; the
    others say REVOKED for good, which tells nothing beside the one that ran it.
    """
    return [row for row in rows if row.state != State.REVOKED] or rows


def _part_order(row: QueueRow | JobRow) -> tuple[int, str]:
    return len(row.job_id), row.job_id  # "10+2" before "10+10"


def _parts(history: Sequence[JobRow]) -> dict[str, list[JobRow]]:
    """Records by part: "10+0", "10+1" of a heterogeneous job; all of a plain one in one group."""
    parts: dict[str, list[JobRow]] = {}
    for row in history:
        parts.setdefault(row.job_id, []).append(row)
    return parts


def _described(ref: JobRef, ours: QueueRow | None, record: JobRow | None, history: Sequence[JobRow]) -> JobStatus:
    """Everything but the verdict."""
    status = JobStatus(ref, elapsed=_elapsed(ours, history), rows=tuple(history))
    if record:
        status = replace(
            status,
            state=record.state,
            cancelled_by=record.cancelled_by,
            exit_code=None if is_live(record.state) else record.exit_code,
            signal=None if is_live(record.state) else record.signal,
            reason=record.reason,
            nodes=record.nodes,
            failed_steps=tuple(str(step) for step in record.steps if step.failed),
            source="sacct",
        )
    if not ours:
        return status
    if not record or record.state != ours.state:
        status = replace(status, cancelled_by=None, exit_code=None, signal=None, failed_steps=())
    return replace(
        status,
        state=ours.state,
        reason=ours.reason,
        nodes=ours.nodes or ("" if is_live(ours.state) else status.nodes),
        start_estimate=_start_estimate(ours),
        time_limit=ours.time_limit,
        source="both" if record else "squeue",
    )


def _elapsed(ours: QueueRow | None, history: Sequence[JobRow]) -> int:
    """Seconds over all attempts: parts of one job run at the same time, attempts of one part after each other."""
    sums = [sum(row.elapsed for row in rows) for rows in _parts(history).values()]
    before = max(sums, default=0)
    if ours is None:
        return before
    record = _newest_deciding(history)
    if record is None:
        return ours.elapsed
    if is_live(record.state) or not is_live(ours.state):  # the same attempt, seen twice
        return before + max(0, ours.elapsed - record.elapsed)
    # An ended record beside a job that is completing is that same attempt; beside a waiting one, the one before.
    return before if ours.state == State.COMPLETING else before + ours.elapsed


def _start_estimate(ours: QueueRow) -> str | None:
    if ours.state != State.PENDING or epoch(ours.start_estimate) is None:
        return None
    return f"{ours.start_estimate}Z"
