"""The last step before green: the rollouts of a chain that is done by the lines of its files are read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from airflow_gym_provider.chain import Action, after_reading
from airflow_gym_provider.exceptions import ChainRetry, ChainStopped
from airflow_gym_provider.operators._cluster import Cluster
from airflow_gym_provider.operators._evidence import Evidence, began
from airflow_gym_provider.operators._memory import ChainMemory
from airflow_gym_provider.operators._plan import ChainPlan
from airflow_gym_provider.results import Summary, recount

MAX_UNREAD = 10
"""Times that the rollouts of a finished chain may turn out unreadable, in about an hour of growing pauses."""


def read_rollouts(seen: Evidence, cluster: Cluster, log: Any) -> tuple[Evidence, Summary]:
    """What a look found of a chain that is done, judged by its rollouts, and what these come to. Takes minutes for
    gigabytes. Raises as `Cluster.summarise`.
    """
    summary = cluster.summarise(began(seen.look))
    for problem in filter(None, (summary.metrics_problem, "" if summary.missing else summary.problem)):
        log.warning("%s", problem)
    if seen.verdict is None:
        return seen, summary
    verdict = recount(seen.verdict, cluster.plan.spec, summary)
    return replace(seen, verdict=verdict, decision=after_reading(seen.decision, verdict)), summary


def check_read(seen: Evidence, plan: ChainPlan, memory: ChainMemory) -> None:
    """Raise ChainStopped when the rollouts do not add up, and ChainRetry when they could not be read.

    The latter passes, so it costs no retry; but what takes a login node half an hour is not begun for ever: after
    `MAX_UNREAD` times the task is red with the reason, and a clear has them read again, without another job. A login
    node that is away is no such time: that is waited for, as ever.
    """
    reason = seen.decision.reason
    if seen.decision.action is Action.WAIT:
        memory.unread += 1
        memory.save()
        if memory.unread < MAX_UNREAD:
            raise ChainRetry(reason, passing=True)
        told = f"{reason}; that was no. {memory.unread}. Mend it and clear the task: they are read again"
        raise ChainStopped(f"{plan.benchmark}: {told}. Logs and results: {plan.job_dir}")
    if seen.decision.action is Action.STOP:
        memory.spoilt = True
        memory.save()
        own = plan.results_are_its_own
        cure = "A clear starts anew, in another directory" if own else "Move them away, and clear the task"
        raise ChainStopped(f"{plan.benchmark}: {reason}. {cure}. Logs and results: {plan.job_dir}")
