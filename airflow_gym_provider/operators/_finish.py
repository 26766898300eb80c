"""The short way to green: what the watcher just saw of a job that COMPLETED, against the files that lie on the cluster.

When two hundred evaluations end together, two hundred tasks that ask squeue and sacct each are a storm over a node
that the watcher has just asked for all of them in one call. So a task that was woken by a "COMPLETED" of seconds ago,
written in accounting, looks at its directory alone: is that the chain's only job, did nobody here cancel it, are the
results complete? Anything else, and any doubt, goes the long way and asks Slurm.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow_gym_provider.chain import ChainLook
from airflow_gym_provider.chain.place import ASKED_FILE
from airflow_gym_provider.exceptions import SlurmTransportError
from airflow_gym_provider.jobscript import quote
from airflow_gym_provider.results import Verdict, judge, parse_survey, survey_body
from airflow_gym_provider.slurm.accounting import JobRow
from airflow_gym_provider.slurm.jobs import JobRef, JobStatus
from airflow_gym_provider.slurm.keys import cluster_of, number_of
from airflow_gym_provider.slurm.remote import RemoteScript
from airflow_gym_provider.slurm.states import Ending
from airflow_gym_provider.triggers.events import EventReason, reason_of

if TYPE_CHECKING:
    from airflow_gym_provider.operators._cluster import Cluster

FRESH = 300.0
"""Seconds for which a watcher's word counts. Beyond, Airflow was slow to wake the task, or clocks differ."""
_TIMEOUT = 300.0
_FILES = """\
frame chain
cat -- {folder}/.gym_job_chain
frame marks
[ ! -e {folder}/.gym_cancelled ] || cat -- {folder}/.gym_cancelled
frame asked
[ ! -e {folder}/{asked} ] || cat -- {folder}/{asked}
"""


def finished(cluster: Cluster, event: Mapping[str, Any] | None) -> tuple[ChainLook, Verdict] | None:
    """What makes the task green, as a look would give it; None when that needs a look. Never raises."""
    job = _completed(event)
    plan = cluster.plan
    if job is None or not plan.results_are_its_own:
        return None
    body = _FILES.format(folder=quote(plan.job_dir), asked=ASKED_FILE) + survey_body(plan.spec)
    script = RemoteScript.build(body, needs=())
    try:
        frames = script.frames(cluster.hook.run(script, _TIMEOUT).stdout)
    except SlurmTransportError:
        return None  # the look that follows tells
    texts = {frame.name: frame.text for frame in frames}
    ids = [number_of(line) for line in texts.get("chain", "").splitlines() if line.strip()]
    survey = parse_survey(plan.spec, frames)
    verdict = judge(survey, plan.spec)
    if ids != [job.ref.job_id] or texts.get("marks", "unread").strip() or not verdict.complete:
        return None
    return ChainLook(plan.place, ids=tuple(ids), jobs=(job,), survey=survey, asked=texts.get("asked", "")), verdict


def _completed(event: Mapping[str, Any] | None) -> JobStatus | None:
    """The one job of a fresh event, when accounting has it as COMPLETED."""
    values = dict(event or {})
    jobs = values.get("jobs") or []
    if reason_of(values) is not EventReason.ENDED or len(jobs) != 1 or not isinstance(jobs[0], Mapping):
        return None
    job = jobs[0]
    if not 0 <= time.time() - float(values.get("at") or 0) <= FRESH:
        return None
    if job.get("ending") != Ending.COMPLETED.value or not job.get("accounted"):
        return None
    key = str(job.get("job_id", ""))
    number = number_of(key)
    return JobStatus(
        JobRef(number, cluster_of(key)),
        state=Ending.COMPLETED.value,
        live=False,
        known=True,
        ending=Ending.COMPLETED,
        exit_code=job.get("exit_code"),
        signal=job.get("signal"),
        elapsed=int(job.get("elapsed", 0)),
        nodes=str(job.get("nodes") or ""),
        failed_steps=tuple(str(step) for step in job.get("failed_steps", ())),
        rows=(
            JobRow(
                number, Ending.COMPLETED.value, submit=job.get("submit"), start=job.get("start"), end=job.get("end")
            ),
        ),
        source="both",
    )
