"""One look at a chain, judged: jobs, results, the budget they count for, and what comes next."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from airflow_gym_provider.chain import Action, ChainError, ChainLook, Decision, decide
from airflow_gym_provider.operators._cluster import Cluster
from airflow_gym_provider.operators._memory import ChainMemory
from airflow_gym_provider.results import Verdict, judge
from airflow_gym_provider.slurm.jobs import JobStatus
from airflow_gym_provider.slurm.states import Ending
from airflow_gym_provider.slurm.times import epoch
from airflow_gym_provider.slurm.troubles import ProblemKind


@dataclass(frozen=True)
class Evidence:
    """What a look found. `base`: how many jobs belong to earlier budgets. `ours`: we had the newest job cancelled."""

    look: ChainLook
    verdict: Verdict | None
    base: int
    decision: Decision
    ours: bool = False

    @property
    def newest(self) -> JobStatus | None:
        """The chain's last job, if there is one."""
        return self.look.jobs[-1] if self.look.jobs else None


def gather(cluster: Cluster, memory: ChainMemory, log: Any, *, unknown_for: float, settled: bool) -> Evidence:
    """Look and decide. `unknown_for` and `settled` as of `chain.decide`. Raises as `Cluster.look`."""
    plan = cluster.plan
    found = cluster.look(memory.place.get("clusters", ()))
    for problem in found.problems:
        log.warning("%s", problem)
    look = _without_runaways(found.chains[plan.benchmark], memory.lost, unknown_for)
    since = None if plan.results_are_its_own else began(look)
    verdict = judge(look.survey, plan.spec, since) if look.survey is not None else None
    base = _budget_base(memory, look, verdict)
    if look.jobs and look.jobs[-1].missing and look.jobs[-1].ref.key == memory.lost:
        unknown_for = math.inf
    history = look.history(base=base, unknown_for=unknown_for)
    ours = bool(look.jobs) and history.cancelled_by_us(look.jobs[-1]) is not None
    decision = decide(history, plan.bounds, verdict, settled=settled)
    if look.unwritable and decision.action in (Action.STOP, Action.SUBMIT):
        # it may be what the job has died of, and is what the next one would
        decision = replace(decision, reason=f"{decision.reason}. {look.unwritable}")
    elif look.jobs and look.jobs[-1].missing and decision.action in (Action.STOP, Action.SUBMIT):
        unkept = [problem for problem in found.problems if problem.kind is ProblemKind.ACCOUNTING_DISABLED]
        decision = replace(decision, reason=". ".join([decision.reason, *unkept]))
    return Evidence(look, verdict, base, decision, ours)


def _without_runaways(look: ChainLook, lost: str, unknown_for: float) -> ChainLook:
    """The look with jobs that are in accounting alone counted as missing: those that have a successor, and the newest
    when a trigger has waited for it in vain.
    """
    jobs = list(look.jobs)
    for at, job in enumerate(jobs):
        given_up = at < len(jobs) - 1 or job.ref.key == lost or math.isinf(unknown_for)
        if job.runaway and given_up:
            jobs[at] = replace(job, live=False, missing=True)
    return replace(look, jobs=tuple(jobs))


def began(look: ChainLook) -> float | None:
    """When the chain's first job was submitted, in seconds since 1970; None when nothing tells. Of a job that was found
    only later Slurm may know more than its directory.
    """
    if not look.jobs:
        return None
    first = look.jobs[0]
    known = (at for row in first.rows if (at := epoch(row.submit)) is not None)
    return first.ref.submitted_at if first.ref.submitted_at is not None else min(known, default=None)


def check_there(seen: Evidence, held: str, cluster: Cluster) -> None:
    """Raise ChainError when nothing is left of the job that was `held`: another one behind people's backs is no answer
    to a directory that is away, as it is when its file system is not mounted.
    """
    if held and not seen.look.ids and not any(job.known for job in seen.look.jobs):
        raise ChainError(
            f"{cluster.plan.job_dir} is away, and with it what became of job {held}. Bring it back (is its file system "
            f"mounted on {cluster.hook.where}?), or clear the task: that starts anew"
        )


def check_way(seen: Evidence, memory: ChainMemory, cluster: Cluster) -> None:
    """Raise ChainError when Slurm does not know the job where the connection leads now, and it was made by way of
    another login node: that may be another cluster's, with the same directories, where the job lives on.

    A job that was asked for without an answer is not looked at so: its chain's directory holds what is to be done.
    """
    if memory.held and memory.way not in ("", cluster.hook.where) and seen.newest is not None and seen.newest.missing:
        raise ChainError(
            f"Slurm on {cluster.hook.where} knows nothing of job {memory.held}, which was made on {memory.way}. If "
            "that is another cluster, have the connection lead there until the chain is over, or end the job there and "
            "clear the task: that starts anew"
        )


def _budget_base(memory: ChainMemory, look: ChainLook, verdict: Verdict | None) -> int:
    """Where the present budget begins: with the first try after a clear, but never behind what still counts."""
    if memory.new_budget:
        if look.jobs and not look.jobs[-1].known and not look.jobs[-1].missing:
            return len(look.jobs)  # while Slurm does not say whether it lives nothing is kept: the clear would be lost
        live = [at for at, job in enumerate(look.jobs) if job.live and job.known]
        if live and look.history().cancelled_by_us(look.jobs[live[-1]]) is not None:
            return len(look.jobs)  # the clear had it cancelled, and it is still ending: the budget is its successor's
        base = live[0] if live else len(look.jobs)
        if not live and look.jobs and look.jobs[-1].ending is Ending.COMPLETED and verdict and verdict.complete:
            base -= 1  # finished in the end, although the task was red: take it
        memory.budget_base, memory.new_budget = base, False
        memory.save()
    return min(memory.budget_base, len(look.jobs))
