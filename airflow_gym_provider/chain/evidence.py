"""From what one look printed to the status of each job: the same rules as every status call (`slurm.settling`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from airflow_gym_provider.chain.identity import is_elsewhere
from airflow_gym_provider.chain.place import ChainPlace
from airflow_gym_provider.slurm.accounting import JobRow, parse_sacct
from airflow_gym_provider.slurm.jobs import JobRef, JobStatus
from airflow_gym_provider.slurm.queue import QueueRow, parse_squeue
from airflow_gym_provider.slurm.remote import Frames
from airflow_gym_provider.slurm.settling import Asked, settle
from airflow_gym_provider.slurm.states import State, is_live
from airflow_gym_provider.slurm.status import answer_problem
from airflow_gym_provider.slurm.troubles import Problem, ProblemKind


@dataclass(frozen=True)
class ClusterRows:
    """What one cluster (None: the default one) answered: rows of squeue, of sacct by id and by name, and the trouble of
    each (`names`: of sacct by name).
    """

    cluster: str | None
    queue: tuple[QueueRow, ...] = ()
    by_id: tuple[JobRow, ...] = ()
    by_name: tuple[JobRow, ...] = ()
    squeue: Problem | None = None
    sacct: Problem | None = None
    names: Problem | None = None

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What kept either tool from answering."""
        return tuple(problem for problem in (self.squeue, self.sacct, self.names) if problem is not None)

    @property
    def accounting(self) -> bool:
        """Whether the site keeps accounts."""
        return all(problem.kind is not ProblemKind.ACCOUNTING_DISABLED for problem in self.problems)

    @property
    def silent_about_names(self) -> bool:
        """Whether a job of ours may exist there that was not shown."""
        return self.squeue is not None or (self.names is not None and self.accounting)


def cluster_rows(frames: Frames) -> list[ClusterRows]:
    """Every cluster that a look asked."""
    return [_cluster(frames, frame.arg(0), frame.arg(1)) for frame in frames.named("cluster")]


def known_job(ref: JobRef, clusters: Iterable[ClusterRows], *, recorded: bool = True) -> JobStatus:
    """The status of `ref`, from its own cluster's rows. Unknown when that cluster was not asked.

    `recorded`: sacct was asked for its id, and that answer alone decides: the question by name, over a range of time,
    is slow at some sites and refused at others, for as long as the run lasts. Of other jobs that one alone tells.
    """
    rows = next((rows for rows in clusters if rows.cluster == ref.cluster), None)
    if rows is None:
        return JobStatus(ref)
    records = [row for row in rows.by_id if row.base_id == ref.job_id]
    records = records or [row for row in rows.by_name if row.base_id == ref.job_id]
    queue = [row for row in rows.queue if row.base_id == ref.job_id]
    trouble = rows.sacct if recorded else rows.names
    return settle(ref, queue, records, Asked(rows.squeue is None, trouble is None, rows.accounting))


def unrecorded(place: ChainPlace, recorded: Sequence[JobRef], clusters: Iterable[ClusterRows]) -> tuple[JobRef, ...]:
    """Jobs of this chain that its directory does not name, oldest first.

    Those with the chain's own name, whatever their state, unless they lie in another chain's run directory; and live
    ones in the benchmark's directory with the job script's name, which somebody submitted by hand. Of one that a
    federation gave to several clusters, the one that has it.
    """
    known = {ref.job_id for ref in recorded}  # alone: a federation's cluster may be asked under two names
    seen: list[tuple[str | None, JobRow | QueueRow]] = []
    for rows in clusters:
        seen += [(rows.cluster, row) for row in rows.by_name]
        seen += [(rows.cluster, row) for row in rows.queue]
    standing = {row.base_id for _, row in seen if row.state != State.REVOKED}
    found: dict[str, JobRef] = {}
    for cluster, row in seen:
        ours = row.name == place.job_name and not is_elsewhere(row.work_dir, place.job_dir)
        by_hand = row.name == place.plain_name and row.work_dir == place.job_dir and is_live(row.state)
        given_away = row.state == State.REVOKED and row.base_id in standing
        if (ours or by_hand) and not given_away and row.base_id not in known:
            found.setdefault(row.base_id, JobRef(row.base_id, cluster, row.work_dir or place.job_dir))
    return tuple(sorted(found.values(), key=lambda ref: int(ref.job_id)))


def _cluster(frames: Frames, tag: str, name: str) -> ClusterRows:
    queue, squeue = _answer(frames, "squeue", "squeue", tag)
    by_id, sacct = _answer(frames, "sacct", "sacct", tag)
    by_name, names = _answer(frames, "sacct-name", "sacct", tag)
    return ClusterRows(
        None if name == "-" else name,
        tuple(parse_squeue(queue)),
        tuple(parse_sacct(by_id)),
        tuple(parse_sacct(by_name)),
        squeue,
        sacct,
        names,
    )


def _answer(frames: Frames, name: str, tool: str, tag: str) -> tuple[str, Problem | None]:
    """What the tool printed, and what is wrong with it. A question that was not put is well answered; of one that was
    put again, the last answer counts.
    """
    texts = [frame.text for frame in frames.named(name) if frame.arg(0) == tag]
    ends = [frame for frame in frames.named(f"{name}.end") if frame.arg(0) == tag]
    if not texts:
        return "", None
    status = int(ends[-1].arg(1)) if ends and ends[-1].arg(1).isdecimal() else None
    return texts[-1], answer_problem(tool, status, ends[-1].text if ends else "", texts[-1])
