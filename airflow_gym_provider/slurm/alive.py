"""Many jobs that were alive at the last look: one squeue tells which still are, and only the others are asked about.

What is alive needs no accounting, so as long as nothing ends a look costs one short program on the login node and
slurmdbd nothing, however many jobs there are. squeue is asked for the user's own jobs, not by ids: slurmctld then picks
them, instead of sending every job of the cluster. It is asked for nothing that grows with time, so that the shell, when
it stays from look to look, need only say that squeue prints the same again. What does not show up there (ended,
requeued under another user, somebody else's) is asked for by its id, from squeue and sacct, in the same round trip.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from airflow_gym_provider.slurm.accounting import parse_sacct, sacct_of_ids
from airflow_gym_provider.slurm.commands import check_id
from airflow_gym_provider.slurm.jobs import JobRef, JobStatus
from airflow_gym_provider.slurm.queue import QueueRow, parse_squeue, squeue_of_ids, squeue_of_user, squeue_rests
from airflow_gym_provider.slurm.remote import Frames
from airflow_gym_provider.slurm.settling import Asked, settle
from airflow_gym_provider.slurm.states import State
from airflow_gym_provider.slurm.status import TOOL_SECONDS, StatusReport, answer_of, by_base_id, by_cluster, half_told
from airflow_gym_provider.slurm.tables import SEPARATOR
from airflow_gym_provider.slurm.times import epoch
from airflow_gym_provider.slurm.troubles import Problem, ProblemKind

__all__ = ["LiveRows", "Told", "alive_script", "read_alive"]

_IN_QUEUE = Asked(squeue_ok=True, sacct_ok=False)


@dataclass
class LiveRows:
    """Rows of the last look that made a status: what squeue prints again is not read again.

    `rows`: by `JobRef.key`, the row without its id; `starts`: since when those that run do, in seconds since 1970.
    """

    rows: dict[str, str] = field(default_factory=dict)
    statuses: dict[str, JobStatus] = field(default_factory=dict)
    starts: dict[str, float] = field(default_factory=dict)

    def now(self, key: str, clock: float | None) -> JobStatus:
        """The status at `clock`, the login node's: a job that runs has run on since it was read."""
        status, start = self.statuses[key], self.starts.get(key)
        if clock is None or start is None:
            return status
        return replace(status, elapsed=_seconds_between(start, clock))

    def keep(self, key: str, row: str, status: JobStatus, start: float | None) -> None:
        """A row and what was made of it. `start` is None for a job that does not run."""
        self.forget(key)
        self.rows[key], self.statuses[key] = row, status
        if start is not None:
            self.starts[key] = start

    def forget(self, key: str) -> None:
        """A job that is not alive any more, or not watched."""
        for store in (self.rows, self.statuses, self.starts):
            store.pop(key, None)


@dataclass
class Told:
    """What a shell that stays has been told: it is not told twice. A new shell needs a new one.

    `numbers`: by cluster, as functions and frames name it; `wanted`: the ids that its squeue is compared with;
    `repeated`: the jobs that were asked for last, and what asks for the same ones.
    """

    numbers: dict[str | None, int] = field(default_factory=dict)
    wanted: dict[int, frozenset[str]] = field(default_factory=dict)
    functions: set[str] = field(default_factory=set)
    repeated: tuple[object, str] = (None, "")

    def once(self, functions: str) -> str:
        """Functions for the shell: "" when it has them."""
        if functions in self.functions:
            return ""
        self.functions.add(functions)
        return functions

    def number(self, cluster: str | None) -> int:
        """The number of a cluster."""
        return self.numbers.setdefault(cluster, len(self.numbers))


def alive_script(refs: Sequence[JobRef], told: Told) -> str:
    """The body of a RemoteScript that looks after jobs that were alive; "" for none. `told` is brought up to date: the
    very same `refs`, which must not be changed, cost nothing the next time.

    No command is longer than 8 KB. Raises ValueError for an id or cluster that cannot be one.
    """
    if told.repeated[0] is refs:
        return told.repeated[1]
    lines: list[str] = []
    looks: list[str] = []
    for cluster, ids in by_cluster(refs).items():
        number = told.number(cluster)
        lines.append(told.once(_functions()))
        lines.append(told.once(_cluster_functions(number, cluster)))
        lines.append(_wanted(number, frozenset(map(check_id, ids)), told))
        looks.append(f"_gym_look_{number}")
    told.repeated = (refs, "\n".join(looks))
    return "\n".join(filter(None, [*lines, *looks]))


def _cluster_functions(number: int, cluster: str | None) -> str:
    squeue, sacct = squeue_of_ids('"$1"', cluster), sacct_of_ids('"$1"', cluster)
    return "\n".join(
        [
            f"_gym_account_{number}() {{",
            '  frame asked "$2"',
            "  printf '%s\\n' \"$1\"",
            f'  framed sacct "$2" {TOOL_SECONDS} {sacct}',
            "}",
            f"_gym_ask_{number}() {{",
            f'  framed squeue "$2" {TOOL_SECONDS} {squeue}',
            f'  _gym_account_{number} "$@"',
            "}",
            f"declare -gA _gym_ids_{number}=()",
            f"_gym_wanted_{number}() {{ printf '%s\\n' \"${{!_gym_ids_{number}[@]}}\"; }}",
            f"_gym_look_{number}() {{ _gym_still {number} {TOOL_SECONDS} {squeue_of_user(cluster)}; }}",
        ]
    )


def _wanted(number: int, ids: frozenset[str], told: Told) -> str:
    """The ids for the shell, or how they differ from those it knows."""
    known = told.wanted.get(number, frozenset())
    if ids == known:
        return ""
    told.wanted[number] = ids
    gone = " ".join(f"'_gym_ids_{number}[{job_id}]'" for job_id in sorted(known - ids))
    come = " ".join(f"[{job_id}]=" for job_id in sorted(ids - known))
    lines = [f"_gym_last[{number}]="]
    if gone:
        lines.append(f"unset -v {gone}")
    if come:
        lines.append(f"_gym_ids_{number}+=({come})")
    return "\n".join(lines)


def read_alive(
    refs: Sequence[JobRef], frames: Frames, live: LiveRows, told: Told, clock: float | None = None
) -> StatusReport:
    """What the answer to `alive_script` of the same `refs` says; `live` is brought up to date. Never raises.

    `StatusReport.jobs` holds only jobs whose status is not the one in `live`. A job of which nothing came is unknown.
    `clock`: seconds since 1970 on the login node.
    """
    same = {frame.arg(0) for frame in frames.named("same")}
    report = StatusReport({}, True, True)
    if same and len(same) == len(told.numbers):
        return report
    for cluster, ids in by_cluster(refs).items():
        number = str(told.number(cluster))
        if number not in same:
            report = _joined(report, _read_cluster(number, ids, frames, live, clock))
    return report


def _read_cluster(
    number: str, ids: Mapping[str, list[JobRef]], frames: Frames, live: LiveRows, clock: float | None
) -> StatusReport:
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
        statuses, shown = _read_queue(text, ids, asked, live, clock)
        report.jobs.update(statuses)
    if len(shown) + len(asked) < len(ids):
        silent = (ref for job_id, own in ids.items() if job_id not in shown | asked for ref in own)
        report.jobs.update({ref.key: JobStatus(ref) for ref in silent})
    for key in report.jobs:
        if key in live.statuses and report.jobs[key] is not live.statuses[key]:
            live.forget(key)
    return report


def _read_queue(
    text: str, ids: Mapping[str, list[JobRef]], asked: set[str], live: LiveRows, clock: float | None
) -> tuple[dict[str, JobStatus], set[str]]:
    """New statuses of jobs that squeue shows, and which it shows. What it printed before is passed over."""
    new, plain, shown = _new_rows(text, ids, live)
    statuses: dict[str, JobStatus] = {}
    damaged = bool(squeue_rests(new))  # a part of any job may be among them: only life is sure
    for job_id, found in by_base_id(parse_squeue(new)).items():
        if job_id in asked or job_id not in ids:
            continue
        shown.add(job_id)
        rows = [_at(row, clock) for row in found]
        for ref in ids[job_id]:
            status = settle(ref, rows, [], _IN_QUEUE)
            statuses[ref.key] = status = JobStatus(ref) if damaged and not status.live else status
            if status.known and status.live and len(rows) == 1 and job_id in plain:
                live.keep(ref.key, plain[job_id], status, _start(rows[0]))
    return statuses, shown


def _new_rows(text: str, ids: Mapping[str, list[JobRef]], live: LiveRows) -> tuple[str, dict[str, str], set[str]]:
    """The lines that were not there at the last look; of those that are one row, the rest of it; and the jobs whose
    row is the same.
    """
    new: list[str] = []
    plain: dict[str, str] = {}
    same: set[str] = set()
    for line in text.split("\n"):
        job_id, _, row = line.partition(SEPARATOR)
        own = ids.get(job_id) if row else None
        if own:
            if all(live.rows.get(ref.key) == row for ref in own):
                same.add(job_id)
                continue
            plain[job_id] = row
        new.append(line)
    return "\n".join(new), plain, same


def _start(row: QueueRow) -> float | None:
    return None if row.state == State.PENDING else epoch(row.start_estimate)


def _at(row: QueueRow, clock: float | None) -> QueueRow:
    """The row with the time that its job has run, which squeue was not asked for. Pauses count, unlike Slurm's own."""
    start = _start(row)
    return row if clock is None or start is None else replace(row, elapsed=_seconds_between(start, clock))


def _seconds_between(start: float, end: float) -> int:
    return max(0, int(end - start))


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
