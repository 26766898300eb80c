"""Many jobs that were alive at the last look: one squeue tells which still are, and only the others are asked about.

What is alive needs no accounting, so as long as nothing ends a look costs one short program on the login node and
slurmdbd nothing, however many jobs there are. squeue is asked for the user's own jobs, not by ids: slurmctld then picks
them, instead of sending every job of the cluster. What does not show up there (ended, requeued under another user,
somebody else's) is asked for by its id, from squeue and sacct, in the same round trip.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from airflow_gym_provider.slurm.accounting import parse_sacct, sacct_of_ids
from airflow_gym_provider.slurm.commands import check_id
from airflow_gym_provider.slurm.jobs import JobRef, JobStatus
from airflow_gym_provider.slurm.queue import parse_squeue, squeue_of_ids, squeue_of_user
from airflow_gym_provider.slurm.remote import Frames
from airflow_gym_provider.slurm.settling import Asked, settle
from airflow_gym_provider.slurm.status import TOOL_SECONDS, StatusReport, answer_of, by_base_id, by_cluster, half_told
from airflow_gym_provider.slurm.tables import SEPARATOR
from airflow_gym_provider.slurm.times import clock_seconds
from airflow_gym_provider.slurm.troubles import Problem, ProblemKind

__all__ = ["LiveRows", "alive_script", "read_alive"]

_IN_QUEUE = Asked(squeue_ok=True, sacct_ok=False)


@dataclass
class LiveRows:
    """Rows of the last look that made a status: what squeue prints again is not read again.

    `rows`: by `JobRef.key`, the row without its clock; `clocks`: what that clock said at the last look.
    """

    rows: dict[str, tuple[str, str]] = field(default_factory=dict)
    statuses: dict[str, JobStatus] = field(default_factory=dict)
    clocks: dict[str, str] = field(default_factory=dict)

    def now(self, key: str) -> JobStatus:
        """The status with the elapsed seconds of the last look."""
        elapsed = clock_seconds(self.clocks.get(key, ""))
        return self.statuses[key] if elapsed is None else replace(self.statuses[key], elapsed=elapsed)

    def forget(self, key: str) -> None:
        """A job that is not alive any more, or not watched."""
        for store in (self.rows, self.statuses, self.clocks):
            store.pop(key, None)


def alive_script(refs: Iterable[JobRef]) -> str:
    """The body of a RemoteScript that looks after jobs that were alive; "" for none.

    No command is longer than 8 KB. Raises ValueError for an id or cluster that cannot be one.
    """
    lines: list[str] = []
    for number, (cluster, ids) in enumerate(by_cluster(refs).items()):
        squeue, sacct = squeue_of_ids('"$1"', cluster), sacct_of_ids('"$1"', cluster)
        lines += [
            f"_gym_account_{number}() {{",
            '  frame asked "$2"',
            "  printf '%s\\n' \"$1\"",
            f'  framed sacct "$2" {TOOL_SECONDS} {sacct}',
            "}",
            f"_gym_ask_{number}() {{",
            f'  framed squeue "$2" {TOOL_SECONDS} {squeue}',
            f'  _gym_account_{number} "$@"',
            "}",
            f"_gym_still {number} {TOOL_SECONDS} {len(ids)} {' '.join(map(check_id, ids))} {squeue_of_user(cluster)}",
        ]
    return "\n".join([_functions(), *lines]) if lines else ""


def read_alive(refs: Sequence[JobRef], frames: Frames, live: LiveRows) -> StatusReport:
    """What the answer to `alive_script` of the same `refs` says; `live` is brought up to date. Never raises.

    `StatusReport.jobs` holds only jobs whose status is not the one in `live`. A job of which nothing came is unknown.
    """
    report = StatusReport({}, True, True)
    for number, ids in enumerate(by_cluster(refs).values()):
        report = _joined(report, _read_cluster(str(number), ids, frames, live))
    return report


def _read_cluster(number: str, ids: Mapping[str, list[JobRef]], frames: Frames, live: LiveRows) -> StatusReport:
    text, trouble = answer_of(frames, "queue", number)
    if trouble and re.search("invalid user", trouble, re.IGNORECASE):
        trouble = None  # an account that slurmctld has no name for: every job was asked for by its id
    report = StatusReport({}, trouble is None, True, (trouble,) if trouble else ())
    asked: set[str] = set()
    for frame in frames.named("asked"):
        if frame.arg(0).partition(".")[0] == number:
            chunk = [job_id for job_id in frame.text.strip().split(",") if job_id in ids]
            asked.update(chunk)
            report = _joined(report, _read_chunk(frame.arg(0), chunk, ids, frames, trouble))
    shown: set[str] = set()
    if not trouble:
        statuses, shown = _read_queue(text, ids, asked, live)
        report.jobs.update(statuses)
    if len(shown) + len(asked) < len(ids):
        silent = (ref for job_id, own in ids.items() if job_id not in shown | asked for ref in own)
        report.jobs.update({ref.key: JobStatus(ref) for ref in silent})
    for key in report.jobs:
        if key in live.statuses and report.jobs[key] is not live.statuses[key]:
            live.forget(key)
    return report


def _read_queue(
    text: str, ids: Mapping[str, list[JobRef]], asked: set[str], live: LiveRows
) -> tuple[dict[str, JobStatus], set[str]]:
    """New statuses of jobs that squeue shows, and which it shows. What it printed before, but for the clock, is passed
    over.
    """
    new, plain, shown = _new_rows(text, ids, live)
    statuses: dict[str, JobStatus] = {}
    for job_id, rows in by_base_id(parse_squeue(new)).items():
        if job_id in asked or job_id not in ids:
            continue
        shown.add(job_id)
        for ref in ids[job_id]:
            statuses[ref.key] = status = settle(ref, rows, [], _IN_QUEUE)
            if status.known and status.live and len(rows) == 1 and job_id in plain:
                live.clocks[ref.key], live.rows[ref.key] = plain[job_id]
                live.statuses[ref.key] = status
    return statuses, shown


def _new_rows(
    text: str, ids: Mapping[str, list[JobRef]], live: LiveRows
) -> tuple[str, dict[str, tuple[str, tuple[str, str]]], set[str]]:
    """The lines that were not there at the last look; of those that are one row, its clock and the rest of it; and
    the jobs whose row is the same.
    """
    new: list[str] = []
    plain: dict[str, tuple[str, tuple[str, str]]] = {}
    same: set[str] = set()
    for line in text.split("\n"):
        cells = line.split(SEPARATOR, 3)
        own = ids.get(cells[0]) if len(cells) == 4 else None
        if own:
            job_id, state, clock, rest = cells
            row, keys = (state, rest), [ref.key for ref in own]
            if live.rows.get(keys[0]) == row and (len(keys) == 1 or all(live.rows.get(key) == row for key in keys)):
                same.add(job_id)
                for key in keys:
                    live.clocks[key] = clock
                continue
            plain[job_id] = (clock, row)
        new.append(line)
    return "\n".join(new), plain, same


def _read_chunk(
    tag: str, chunk: Sequence[str], ids: Mapping[str, list[JobRef]], frames: Frames, unanswered: Problem | None
) -> StatusReport:
    """Jobs that were asked for by id; squeue was not asked again when it had just failed."""
    queue, squeue_trouble = answer_of(frames, "squeue", tag)
    again = any(frame.arg(0) == tag for frame in frames.named("squeue"))
    squeue_trouble = squeue_trouble if again else unanswered
    records, sacct_trouble = answer_of(frames, "sacct", tag)
    accounting = sacct_trouble is None or sacct_trouble.kind is not ProblemKind.ACCOUNTING_DISABLED
    told = Asked(again and squeue_trouble is None, sacct_trouble is None, accounting)
    rows, history = by_base_id(parse_squeue(queue)), by_base_id(parse_sacct(records))
    half_rows, half_records = half_told(queue, rows), half_told(records, history)
    jobs: dict[str, JobStatus] = {}
    for job_id in chunk:
        asked = replace(
            told,
            squeue_ok=told.squeue_ok and job_id not in half_rows,
            sacct_ok=told.sacct_ok and job_id not in half_records,
        )
        for ref in ids[job_id]:
            jobs[ref.key] = settle(ref, rows.get(job_id, []), history.get(job_id, []), asked)
    problems = tuple(problem for problem in (squeue_trouble, sacct_trouble) if problem)
    return StatusReport(jobs, told.squeue_ok, told.sacct_ok, problems)


def _joined(one: StatusReport, other: StatusReport) -> StatusReport:
    problems = tuple(dict.fromkeys([*one.problems, *other.problems]))
    return StatusReport(
        one.jobs | other.jobs, one.squeue_ok and other.squeue_ok, one.sacct_ok and other.sacct_ok, problems
    )


@cache
def _functions() -> str:
    return Path(__file__).with_name("alive.sh").read_text(encoding="utf-8")
