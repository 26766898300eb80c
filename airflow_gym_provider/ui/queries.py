"""What Airflow's database holds of evaluations: a fixed number of bounded SELECTs for each page, however much there is.

Read through the API server's own session; nothing is written. Values that a custom XCom backend keeps elsewhere are not
fetched: such a run has a state and no numbers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from sqlalchemy import Subquery, Text, and_, cast, func, or_, select
from sqlalchemy.orm import Session, aliased

from airflow_gym_provider import xcom_keys
from airflow_gym_provider.ui.runs import RunRow

_PLAIN = re.compile(r"[A-Za-z0-9._-]+")
OVERVIEW_RUNS = 40
"""DAG runs of each DAG of which the overview knows."""
HISTORY_RUNS = 500
"""DAG runs of which a benchmark's history knows."""


def gym_tasks(session: Session, dag_id: str | None = None) -> dict[str, set[str]]:
    """DAG id to the ids of its tasks that have ever had an evaluation."""
    query = select(XComModel.dag_id, XComModel.task_id).where(XComModel.key == xcom_keys.JOB).distinct()
    if dag_id is not None:
        query = query.where(XComModel.dag_id == dag_id)
    found: dict[str, set[str]] = {}
    for dag, task in session.execute(query):
        found.setdefault(dag, set()).add(task)
    return found


def recent_rows(session: Session, tasks: dict[str, set[str]], limit: int = OVERVIEW_RUNS) -> list[RunRow]:
    """Evaluations of the last `limit` runs of each of these DAGs, newest first, with their results."""
    names = sorted(set().union(*tasks.values())) if tasks else []
    return [row for row in _rows(session, _recent(tasks, limit), names) if row.task_id in tasks.get(row.dag_id, ())]


def history_rows(session: Session, dag_id: str, benchmark: str, limit: int = HISTORY_RUNS) -> list[RunRow]:
    """One benchmark in the last `limit` runs of a DAG, newest first."""
    names = sorted(gym_tasks(session, dag_id).get(dag_id, ()))
    rows = _rows(session, _recent([dag_id], limit), names, benchmark)
    places = {(row.task_id, row.map_index) for row in rows if row.job}
    return [row for row in rows if (row.task_id, row.map_index) in places]


def run_rows(session: Session, dag_id: str, run_ids: Sequence[str], benchmark: str | None = None) -> list[RunRow]:
    """The evaluations of certain runs of a DAG."""
    names = sorted(gym_tasks(session, dag_id).get(dag_id, ()))
    chosen = (
        select(DagRun.id, DagRun.dag_id, DagRun.run_id, DagRun.run_after)
        .where(DagRun.dag_id == dag_id, DagRun.run_id.in_(run_ids))
        .subquery()
    )
    return _rows(session, chosen, names, benchmark)


def verdicts(session: Session, dag_ids: Sequence[str], limit: int) -> list[tuple[str, str, str, Any]]:
    """(DAG id, run id, task id, verdict) that gates left in the last `limit` runs of these DAGs, newest first."""
    recent = _recent(dag_ids, limit)
    query = (
        select(recent.c.dag_id, recent.c.run_id, XComModel.task_id, XComModel.value)
        .join(XComModel, XComModel.dag_run_id == recent.c.id)
        .where(XComModel.key == xcom_keys.VERDICT)
        .order_by(recent.c.run_after.desc(), recent.c.id.desc())
    )
    return [(dag_id, run_id, task_id, value) for dag_id, run_id, task_id, value in session.execute(query)]


def task_row(session: Session, dag_id: str, run_id: str, task_id: str, map_index: int) -> RunRow | None:
    """One task instance; None if there is none."""
    chosen = (
        select(DagRun.id, DagRun.dag_id, DagRun.run_id, DagRun.run_after)
        .where(DagRun.dag_id == dag_id, DagRun.run_id == run_id)
        .subquery()
    )
    rows = _rows(session, chosen, [task_id])
    return next((row for row in rows if row.map_index == map_index), None)


def run_xcoms(
    session: Session, dag_id: str, run_id: str, task_ids: Sequence[str], keys: Sequence[str]
) -> dict[tuple[str, int], dict[str, Any]]:
    """(task id, map index) to these XComs of it, those that it has, in one DAG run."""
    query = select(XComModel.task_id, XComModel.map_index, XComModel.key, XComModel.value).where(
        XComModel.dag_id == dag_id,
        XComModel.run_id == run_id,
        XComModel.task_id.in_(task_ids),
        XComModel.key.in_(keys),
    )
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for task_id, map_index, key, value in session.execute(query):
        found.setdefault((task_id, map_index), {})[key] = value
    return found


def _recent(dag_ids: Any, limit: int) -> Subquery:
    """The last `limit` runs of each DAG."""
    order = func.row_number().over(partition_by=DagRun.dag_id, order_by=(DagRun.run_after.desc(), DagRun.id.desc()))
    ranked = (
        select(DagRun.id, DagRun.dag_id, DagRun.run_id, DagRun.run_after, order.label("place"))
        .where(DagRun.dag_id.in_(sorted(dag_ids)))
        .subquery()
    )
    return select(ranked).where(ranked.c.place <= limit).subquery()


def _rows(session: Session, recent: Subquery, task_ids: Sequence[str], benchmark: str | None = None) -> list[RunRow]:
    ti, job, result = TaskInstance, aliased(XComModel), aliased(XComModel)
    query = (
        select(
            recent.c.dag_id,
            recent.c.run_id,
            ti.task_id,
            ti.map_index,
            ti.state,
            ti.try_number,
            recent.c.run_after,
            ti.start_date,
            ti.end_date,
            job.value,
            result.value,
            ti._rendered_map_index,
        )
        .join(ti, and_(ti.dag_id == recent.c.dag_id, ti.run_id == recent.c.run_id))
        .outerjoin(job, _xcom_of(job, recent, xcom_keys.JOB))
        .outerjoin(result, _xcom_of(result, recent, xcom_keys.RESULT))
        .where(ti.task_id.in_(task_ids))
        .order_by(recent.c.run_after.desc(), recent.c.id.desc(), ti.task_id, ti.map_index)
    )
    if benchmark is not None and _PLAIN.fullmatch(benchmark):
        # Less to fetch. As text, for a database's JSON functions stumble over values that Python writes (NaN).
        named = cast(job.value, Text).contains(f'"benchmark": "{benchmark}"', autoescape=True)
        query = query.where(or_(job.key.is_(None), named))
    return [RunRow(*values) for values in session.execute(query)]


def _xcom_of(xcom: Any, recent: Subquery, key: str) -> Any:
    ti = TaskInstance
    return and_(
        xcom.dag_run_id == recent.c.id,
        xcom.task_id == ti.task_id,
        xcom.map_index == ti.map_index,
        xcom.key == key,
    )
