"""Which records under a job's number are that job's: numbers start again after 67 million, or when a site resets."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

from airflow_gym_provider.slurm.accounting import JobRow
from airflow_gym_provider.slurm.jobs import JobRef
from airflow_gym_provider.slurm.queue import QueueRow
from airflow_gym_provider.slurm.times import epoch

__all__ = ["newest", "own_queue_rows", "own_records"]

_CLOCK_SLACK = 3600.0  # seconds that clocks of worker, login node and accounting may differ


def own_queue_rows(ref: JobRef, rows: Sequence[QueueRow]) -> list[QueueRow]:
    """The rows of `ref` itself (several for a heterogeneous job), in order."""
    return [row for row in rows if row.base_id == ref.job_id and _is_own(ref, row.work_dir, row.submit)]


def own_records(ref: JobRef, rows: Sequence[JobRow]) -> list[JobRow]:
    """The records of `ref` itself, each time it was requeued and each part of a heterogeneous job.

    A record of another directory, or submitted long before, belongs to another job. When nothing is known of `ref` but
    its number, the newest record tells which job is meant.
    """
    own = [row for row in rows if row.base_id == ref.job_id and _is_own(ref, row.work_dir, row.submit)]
    if own and ref.job_dir is None and ref.submitted_at is None:
        last = newest(own)
        own = [row for row in own if (row.work_dir, row.name) == (last.work_dir, last.name)]
    return own


def newest(rows: Sequence[JobRow]) -> JobRow:
    """The record submitted last; of equal ones, or ones without a date, the last in order. Raises ValueError for
    none.
    """
    return max(enumerate(rows), key=lambda item: (epoch(item[1].submit) or 0.0, item[0]))[1]


def _is_own(ref: JobRef, work_dir: str, submit: str | None) -> bool:
    when = epoch(submit)
    if ref.submitted_at is not None and when is not None and when < ref.submitted_at - _CLOCK_SLACK:
        return False
    return not (ref.job_dir and work_dir) or _comparable(ref.job_dir) == _comparable(work_dir)


def _comparable(path: str) -> str:
    # Accounting keeps some characters differently: a double quote comes back as a backtick (22.05), a backslash
    # doubled, a letter that the database's character set lacks as "?". What every release keeps is enough to compare
    # by.
    return re.sub(r"[^A-Za-z0-9/._-]", "", posixpath.normpath(path))
