"""What a try leaves of its chain for the pages: every job with its times, and what of the budget is used.

Airflow wipes a task's XComs when its next try begins, so each try leaves the whole chain: when it has a job to wait
for, and when it ends. All of it is read from the cluster, so nothing is lost by that.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_gym_provider import xcom_keys
from airflow_gym_provider.slurm.jobs import JobStatus
from airflow_gym_provider.slurm.times import utc_text
from airflow_gym_provider.storable import storable

if TYPE_CHECKING:
    from airflow_gym_provider.chain import Decision
    from airflow_gym_provider.operators._plan import ChainPlan

_MOST_JOBS = 40
_LONGEST_REASON = 500

_log = logging.getLogger(__name__)


def chain_values(
    plan: ChainPlan, jobs: Sequence[JobStatus], base: int, decision: Decision, submitted: str | None = None
) -> dict[str, Any]:
    """The XCom `gym_chain`: times are text in UTC, durations seconds; `base` jobs belong to earlier budgets.

    `submitted`: a job that was submitted after the look. At most the newest 40 jobs, `left_out` tells how many more
    there are.
    """
    spans = [_span(job) for job in jobs]
    if submitted and all(span["id"] != submitted for span in spans):
        spans.append({"id": submitted, "state": "PENDING", "submit": utc_text(time.time())})
    left_out = max(0, len(spans) - _MOST_JOBS)
    bounds = plan.bounds
    return {
        "benchmark": plan.benchmark,
        "jobs": spans[left_out:],
        "left_out": left_out,
        "base": max(0, base - left_out),
        "used": decision.used,
        "max_walltime": bounds.max_walltime,
        "walltime": bounds.walltime,
        "retries": decision.retries,
        "max_retries": bounds.max_retries if bounds.resumable else 0,
        "resumable": bounds.resumable,
        "reason": decision.reason[:_LONGEST_REASON],
    }


def leave_chain(ti: Any, values: dict[str, Any]) -> None:
    """Push it. The pages are no reason to fail: when Airflow does not take it, the log says so."""
    try:
        ti.xcom_push(key=xcom_keys.CHAIN, value=storable(values))
    except Exception as err:
        _log.info("the chain could not be left for the pages: %s", type(err).__name__)


def _span(job: JobStatus) -> dict[str, Any]:
    first, last = (job.rows[0], job.rows[-1]) if job.rows else (None, None)
    submit = first.submit if first else None
    if submit is None and job.ref.submitted_at is not None:
        submit = utc_text(job.ref.submitted_at)
    span = {
        "id": job.ref.key,
        "state": job.ending.value if job.ending else job.state,
        "submit": submit,
        "start": last.start if last else None,
        "end": last.end if last and not job.live else None,
        "elapsed": job.elapsed,
        "nodes": job.nodes[:200],
        "exit_code": job.exit_code,
        "reason": job.reason[:200] if job.live else "",
    }
    return {name: value for name, value in span.items() if value not in (None, "")}
