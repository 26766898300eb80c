"""The chain that a try leaves for the pages."""

from __future__ import annotations

import json
from types import SimpleNamespace

from airflow_gym_provider import xcom_keys
from airflow_gym_provider.chain import Action, Decision, Limits
from airflow_gym_provider.operators._timeline import chain_values, leave_chain
from airflow_gym_provider.slurm.accounting import JobRow
from airflow_gym_provider.slurm.jobs import JobRef, JobStatus
from airflow_gym_provider.slurm.states import Ending
from airflow_gym_provider.ui.chains import read_chain

LIMITS = Limits(resumable=True, max_retries=3, max_walltime=600, walltime=60)
PLAN = SimpleNamespace(bounds=LIMITS, benchmark="gpqa")
DECISION = Decision(Action.SUBMIT, "TIMEOUT after 0:01:10; 0:01:10 of 0:10:00 used; resuming", used=70, retries=1)


def ended(number: int, **more) -> JobStatus:
    rows = (
        JobRow(str(number), "REQUEUED", submit="2026-01-01T02:00:00", start="2026-01-01T02:00:10"),
        JobRow(
            str(number), "TIMEOUT", submit="2026-01-01T02:01:00", start="2026-01-01T02:01:30", end="2026-01-01T02:02:40"
        ),
    )
    return JobStatus(
        JobRef(str(number)), "TIMEOUT", live=False, known=True, ending=Ending.TIMEOUT, elapsed=70, rows=rows, **more
    )


def test_every_job_has_its_times_and_the_one_just_submitted_is_there():
    values = chain_values(PLAN, [ended(7, nodes="n1", exit_code=0)], 0, DECISION, "8;c2")
    assert values["jobs"][0] == {
        "id": "7",
        "state": "TIMEOUT",
        "submit": "2026-01-01T02:00:00",
        "start": "2026-01-01T02:01:30",
        "end": "2026-01-01T02:02:40",
        "elapsed": 70,
        "nodes": "n1",
        "exit_code": 0,
    }
    assert (values["jobs"][1]["id"], values["jobs"][1]["state"]) == ("8;c2", "PENDING")
    assert {name: values[name] for name in ("used", "max_walltime", "walltime", "retries", "max_retries")} == {
        "used": 70,
        "max_walltime": 600,
        "walltime": 60,
        "retries": 1,
        "max_retries": 3,
    }
    assert values["reason"] == DECISION.reason


def test_an_adopted_job_is_there_once():
    job = JobStatus(JobRef("9", submitted_at=1767225600.0), "RUNNING", live=True, known=True, elapsed=5)
    values = chain_values(PLAN, [job], 0, DECISION, "9")
    assert values["jobs"] == [{"id": "9", "state": "RUNNING", "submit": "2026-01-01T00:00:00", "elapsed": 5}]


def test_a_chain_without_end_stays_small():
    values = chain_values(PLAN, [ended(number, nodes="n" * 500) for number in range(500)], 470, DECISION)
    assert (len(values["jobs"]), values["left_out"], values["base"]) == (40, 460, 10)
    assert len(json.dumps(values)) < 20_000
    view = read_chain({xcom_keys.CHAIN: values})
    assert [job.counted for job in view.jobs] == [False] * 10 + [True] * 30


def test_the_page_reads_what_the_task_leaves():
    view = read_chain({xcom_keys.CHAIN: chain_values(PLAN, [ended(7)], 0, DECISION, "8")})
    assert (view.used, view.max_walltime, view.retries, view.max_retries) == (70, 600, 1, 3)
    first, second = view.jobs
    assert (first.queued(0), first.running(0), first.light) == (90, 70, "on")
    assert second.live


def test_airflow_that_does_not_take_it_is_no_trouble():
    class Ti:
        def xcom_push(self, **_):
            raise RuntimeError

    leave_chain(Ti(), {})
