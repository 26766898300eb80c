"""From the database to a page: one function for each. None means that there is no such thing."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy.orm import Session

from airflow_gym_provider import xcom_keys
from airflow_gym_provider.ui import queries
from airflow_gym_provider.ui.chains import read_chain
from airflow_gym_provider.ui.charts import chain_bars, sparkline
from airflow_gym_provider.ui.gates import GateWords, gate_words, word_of
from airflow_gym_provider.ui.pairs import read_pairs
from airflow_gym_provider.ui.render import page
from airflow_gym_provider.ui.report import render_report
from airflow_gym_provider.ui.runs import EvalRun, Series, change, collect, previous_green, read_run

_log = logging.getLogger(__name__)
_CHAIN_KEYS = (xcom_keys.JOB, xcom_keys.RESULT, xcom_keys.CHAIN, xcom_keys.LIVE)
_REPORT_KEYS = (*_CHAIN_KEYS, xcom_keys.FAILURE)
_DEEP = "../../"
"""From /gym/dags/<dag>/<page> to /gym/: addresses are relative, whatever prefix Airflow has."""


def overview(session: Session, tasks: dict[str, set[str]]) -> str:
    """One row for each benchmark of these DAGs' tasks."""
    series = collect(queries.recent_rows(session, tasks))
    words = gate_words(queries.verdicts(session, list(tasks), queries.OVERVIEW_RUNS)) if tasks else {}
    rows = [_or_broken({"series": one}, lambda one=one: _overview_row(one, words)) for one in series]
    return page("overview.html.j2", root="./", rows=rows)


def history(session: Session, dag_id: str, name: str, cluster: str | None, *, instance: str, metric: str) -> str | None:
    """A benchmark's runs as a chart and a table."""
    series, _ = _series(session, dag_id, name, cluster, instance)
    if series is None:
        return None
    words = gate_words(queries.verdicts(session, [dag_id], queries.HISTORY_RUNS))
    chosen = metric if metric in series.metric_names else series.headline
    rows = [
        _or_broken({"run": run}, lambda at=at: _history_row(series.runs, at, chosen, words))
        for at, run in enumerate(series.runs)
    ]
    return page(
        "history.html.j2", root=_DEEP, series=series, metric=chosen, rows=rows, points=_points(series.runs, chosen)
    )


def compare(
    session: Session, dag_id: str, name: str, cluster: str | None, *, instance: str, left: str, right: str
) -> str | None:
    """Two runs of a benchmark; the newest two that have results unless told otherwise.

    `left` and `right` are ids of DAG runs, with the task instance behind a blank for one that is not of this series.
    """
    series, siblings = _series(session, dag_id, name, cluster, instance)
    if series is None:
        return None
    greens = series.greens()
    after = _named(right, series, siblings) if right else next(iter(greens), None)
    others = (run for run in greens if after is None or run.row.run_id != after.row.run_id)
    before = _named(left, series, siblings) if left else next(others, None)
    if (left and before is None) or (right and after is None):
        return None
    names = dict.fromkeys(name for run in (before, after) if run for name in run.metrics)
    rows = [(name, before.value(name) if before else None, after.value(name) if after else None) for name in names]
    pairs = read_pairs(*(run.row.result if run else None for run in (before, after)))
    choices = [(_name(run, one), run) for one in siblings for run in one.runs]
    choices.sort(key=lambda choice: str(choice[1].row.at), reverse=True)
    return page(
        "compare.html.j2",
        root=_DEEP,
        series=series,
        choices=choices,
        left=before,
        right=after,
        rows=rows,
        pairs=pairs,
    )


def _name(run: EvalRun, series: Series) -> str:
    """What an address calls a run."""
    return f"{run.row.run_id} {series.instance}" if series.instance else run.row.run_id


def _named(name: str, series: Series, siblings: Sequence[Series]) -> EvalRun | None:
    """The run of this name: of this series when it names no instance, else of the series of that instance."""
    mine = [run for run in series.runs if run.row.run_id == name]
    others = (run for one in siblings for run in one.runs if _name(run, one) == name)
    return mine[0] if mine else next(others, None)


def chain(session: Session, dag_id: str, run_id: str, task_id: str, map_index: int) -> str | None:
    """A task instance's chain; a page that says so when the task is no evaluation."""
    row = queries.task_row(session, dag_id, run_id, task_id, map_index)
    if row is None:
        return None
    xcoms = queries.run_xcoms(session, dag_id, run_id, [task_id], _CHAIN_KEYS).get((task_id, map_index), {})
    view, now = read_chain(xcoms), time.time()
    return page("chain.html.j2", root=_DEEP, row=row, run=read_run(row), view=view, bars=chain_bars(view, now), at=now)


def report(session: Session, dag_id: str, run_id: str) -> str | None:
    """The report file of a DAG run."""
    rows = [row for row in queries.run_rows(session, dag_id, [run_id]) if row.state != "removed"]
    if not any(read_run(row) for row in rows):
        return None
    found = queries.run_xcoms(session, dag_id, run_id, sorted({row.task_id for row in rows}), _REPORT_KEYS)
    chains = [found.get((row.task_id, row.map_index), {}) for row in rows]
    words = gate_words(queries.verdicts(session, [dag_id], queries.HISTORY_RUNS))
    runs = [read_run(row) for row in rows]
    return render_report(
        [xcoms.get(xcom_keys.RESULT) or xcoms.get(xcom_keys.JOB) for xcoms in chains],
        title=f"{dag_id}, {run_id}",
        chains=chains,
        states=[row.state or "" for row in rows],
        places=[row.place for row in rows],
        gates=[word_of(words, run) if run else None for run in runs],
    )


def _series(
    session: Session, dag_id: str, name: str, cluster: str | None, instance: str
) -> tuple[Series | None, list[Series]]:
    """The series that is asked for, the newest where several fit, and all of this benchmark on its cluster."""
    found = [one for one in collect(queries.history_rows(session, dag_id, name)) if one.benchmark == name]
    fit = [one for one in found if cluster in (None, one.cluster) and (not instance or one.instance in ("", instance))]
    series = max(fit, key=lambda one: str(one.last.row.at), default=None)
    return series, [one for one in found if series is not None and one.cluster == series.cluster]


def _or_broken(otherwise: dict[str, Any], make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The row, or one that says that it cannot be shown: what one task left takes no page away from the others."""
    try:
        return make() | {"broken": False}
    except Exception:
        _log.exception("a row of the pages cannot be shown")
        return otherwise | {"broken": True}


def _overview_row(series: Series, words: GateWords) -> dict[str, Any]:
    metric, runs = series.headline, series.runs
    valued = next((at for at, run in enumerate(runs) if run.value(metric) is not None), 0)
    return _history_row(runs, valued, metric, words) | {
        "series": series,
        "spark": sparkline([(run.value(metric), _spark_light(run)) for run in reversed(runs)]),
        "gate": word_of(words, series.last),
    }


def _spark_light(run: EvalRun) -> str:
    return "resumed" if run.light == "green" and run.resumed else run.light


def _history_row(runs: Sequence[EvalRun], at: int, metric: str, words: GateWords) -> dict[str, Any]:
    run = runs[at]
    before = previous_green(runs, at, metric)
    gate = word_of(words, run)
    value, old = run.value(metric), gate.baselines.get(metric) if gate else None
    moved = change(run, before, metric) if value is None or old is None else value - old
    return {"run": run, "value": value, "before": before, "change": moved, "gate": gate}


def _points(runs: Sequence[EvalRun], metric: str) -> dict[str, Any]:
    """For the chart, oldest first: seconds since 1970, values, lights, and whether resumed."""
    order = [run for run in reversed(runs) if run.row.at is not None]
    return {
        "at": [run.row.at.timestamp() if run.row.at else 0 for run in order],
        "values": [run.value(metric) for run in order],
        "lights": [run.light for run in order],
        "resumed": [run.resumed for run in order],
        "runs": [run.row.run_id for run in order],
        "metric": metric,
    }
