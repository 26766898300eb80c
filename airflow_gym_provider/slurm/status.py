"""One look at any number of jobs: one squeue and one sacct per cluster, and what they say of each job together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from airflow_gym_provider.slurm.accounting import JobRow, parse_sacct, sacct_command, sacct_rests
from airflow_gym_provider.slurm.commands import chunks
from airflow_gym_provider.slurm.jobs import JobRef, JobStatus
from airflow_gym_provider.slurm.queue import QueueRow, parse_squeue, squeue_command, squeue_rests
from airflow_gym_provider.slurm.remote import Frames
from airflow_gym_provider.slurm.settling import Asked, settle
from airflow_gym_provider.slurm.tables import SEPARATOR
from airflow_gym_provider.slurm.troubles import Problem, ProblemKind, damage, table_problem

__all__ = [
    "TOOL_SECONDS",
    "JobRef",
    "JobStatus",
    "StatusReport",
    "answer_of",
    "answer_problem",
    "by_base_id",
    "by_cluster",
    "half_told",
    "parse_status",
    "status_script",
]

TOOL_SECONDS = 45
"""How long one call of squeue or sacct may take: squeue itself tries that long while slurmctld is down."""

_LINE_OF_JOB = re.compile(rf"^(\d+)(?:[+_][^\n{SEPARATOR}|]*)?[{SEPARATOR}|]", re.MULTILINE)
_Row = TypeVar("_Row", QueueRow, JobRow)


@dataclass(frozen=True)
class StatusReport:
    """What one look found. `jobs` is keyed by `JobRef.key`; every job asked for is in it.

    `squeue_ok` and `sacct_ok` tell whether every call of that tool gave an answer to rely on; `problems` are texts for
    people, one for each different trouble, each with its `kind`.
    """

    jobs: dict[str, JobStatus]
    squeue_ok: bool
    sacct_ok: bool
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True)
class _Query:
    tag: str
    cluster: str | None
    ids: tuple[str, ...]


def status_script(refs: Iterable[JobRef]) -> str:
    """The body of a RemoteScript that asks for all of `refs`: ONE squeue and ONE sacct per cluster.

    Ids that do not fit one command of 8 KB go into further ones. Each call may take 45 seconds (squeue itself tries
    that long while slurmctld is down), and neither keeps the other from being asked. Raises ValueError for an id or
    cluster that cannot be one.
    """
    lines = []
    for query in _queries(refs):
        squeue, sacct = squeue_command(query.ids, query.cluster), sacct_command(query.ids, query.cluster)
        lines.append(f"framed squeue {query.tag} {TOOL_SECONDS} {squeue}")
        lines.append(f"framed sacct {query.tag} {TOOL_SECONDS} {sacct}")
    return "\n".join(lines)


def parse_status(refs: Sequence[JobRef], frames: Frames) -> StatusReport:
    """What the answer to `status_script` of the same `refs` says. Never raises.

    An answer that was cut off, or never came, leaves jobs unknown; it never ends one.
    """
    problems: dict[Problem, None] = {}
    if frames.error:
        problems[Problem(frames.error, ProblemKind.NO_TOOL)] = None
    jobs: dict[str, JobStatus] = {}
    ok = {"squeue": True, "sacct": True}
    by_id = by_cluster(refs)
    for query in _queries(refs):
        queue, squeue_trouble = answer_of(frames, "squeue", query.tag)
        records, sacct_trouble = answer_of(frames, "sacct", query.tag)
        for tool, trouble in (("squeue", squeue_trouble), ("sacct", sacct_trouble)):
            if trouble is not None:
                ok[tool] = False
                problems.setdefault(trouble)
        accounting = sacct_trouble is None or sacct_trouble.kind is not ProblemKind.ACCOUNTING_DISABLED
        rows, history = by_base_id(parse_squeue(queue)), by_base_id(parse_sacct(records))
        half_rows, half_records = half_told(queue, rows), half_told(records, history)
        for job_id in query.ids:
            asked = Asked(
                squeue_trouble is None and job_id not in half_rows,
                sacct_trouble is None and job_id not in half_records,
                accounting,
            )
            for ref in by_id[query.cluster][job_id]:
                jobs[ref.key] = settle(ref, rows.get(job_id, []), history.get(job_id, []), asked)
    return StatusReport(jobs, ok["squeue"], ok["sacct"], tuple(problems))


def _queries(refs: Iterable[JobRef]) -> Iterator[_Query]:
    number = 0
    for cluster, ids in by_cluster(refs).items():
        for chunk in chunks(ids):
            yield _Query(str(number), cluster, chunk)
            number += 1


def by_cluster(refs: Iterable[JobRef]) -> dict[str | None, dict[str, list[JobRef]]]:
    """Jobs by cluster and number; None is the cluster that commands ask by themselves."""
    grouped: dict[str | None, dict[str, list[JobRef]]] = {}
    for ref in refs:
        grouped.setdefault(ref.cluster, {}).setdefault(ref.job_id, []).append(ref)
    return grouped


def answer_of(frames: Frames, name: str, tag: str) -> tuple[str, Problem | None]:
    """What a tool printed in the frames of that name and tag, and what is wrong with it: see `answer_problem`."""
    text = "".join(frame.text for frame in frames.named(name) if frame.arg(0) == tag)
    ends = [frame for frame in frames.named(f"{name}.end") if frame.arg(0) == tag]
    status = int(ends[0].arg(1)) if ends and ends[0].arg(1).isdecimal() else None
    return text, answer_problem(name, status, ends[0].text if ends else "", text)


def answer_problem(tool: str, status: int | None, stderr: str, table: str) -> Problem | None:
    """Why nothing follows from an answer of squeue or sacct; None when even what it lacks tells something.

    "queue" is a squeue for whatever a user has: its rows count each for itself, and what it lacks is asked for by id.
    """
    problem = table_problem("squeue" if tool == "queue" else tool, status, stderr, table)
    if problem is not None or tool == "queue":
        return problem
    left = squeue_rests(table) if tool == "squeue" else sacct_rests(table)
    return damage(tool, left[0]) if left else None


def half_told(text: str, rows: Mapping[str, object]) -> set[str]:
    """Jobs of which a line is there, but no whole row: nothing is known of them, not even that they are gone."""
    return set(_LINE_OF_JOB.findall(text)).difference(rows)


def by_base_id(rows: Iterable[_Row]) -> dict[str, list[_Row]]:
    """Rows by the number that sbatch answered: all parts of a heterogeneous job together."""
    grouped: dict[str, list[_Row]] = {}
    for row in rows:
        grouped.setdefault(row.base_id, []).append(row)
    return grouped
