"""Which earlier run a gate compares with: through what Airflow lets a worker ask, never through its database.

Every gate leaves a small XCom `gym_gate`: its run, that run's date, which benchmarks it found good. A later run asks
for those of all earlier runs, takes the newest first, and believes one only while Airflow says that its gate is green.
So a person who marks a red gate as success makes its run the new baseline, and one who marks a green one as failed
unmakes it. Dates are logical dates, or `run_after` where a run has none (those that an asset started): a backfill of an
older date never sees a newer run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException

from airflow_gym_provider import xcom_keys
from airflow_gym_provider.operators._gate_runs import BenchmarkRun, runs_of_results

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

_AT_ONCE = 20


def run_date(context: Context) -> datetime:
    """What earlier and later mean for the present run."""
    run: Any = context["dag_run"]
    date: datetime = run.logical_date or run.run_after
    return date


def index_values(context: Context, green: Sequence[str], *, fails: bool) -> dict[str, Any]:
    """The XCom `gym_gate`. `green`: benchmarks that a later run may be compared with; `fails`: the task ends red."""
    ti: Any = context["ti"]
    return {"run_id": ti.run_id, "at": run_date(context).isoformat(), "green": list(green), "fails": fails}


def last_green(context: Context, benchmarks: Iterable[str]) -> dict[str, BenchmarkRun]:
    """Benchmark to its newest earlier good run. Those of the newest green gate are there though not asked for.

    So a benchmark that had a result the last time and has none now is noticed.
    """
    found: dict[str, BenchmarkRun] = {}
    wanted: set[str] | None = None
    for record in _green_gates(context):
        runs = _runs(context, str(record["run_id"]))
        good = {name: run for name, run in runs.items() if record["fails"] or name in record["green"]}
        if not good:
            continue
        if wanted is None:
            wanted = {*benchmarks, *good}
        found |= {name: run for name, run in good.items() if name in wanted and name not in found}
        if wanted <= found.keys():
            break
    return found


def named_run(context: Context, run_id: str, task_ids: Iterable[str]) -> dict[str, BenchmarkRun]:
    """The results of a run of this DAG, from its gate or from the tasks before it. Raises AirflowFailException."""
    runs = _runs(context, run_id)
    if not runs:
        ti: Any = context["ti"]
        ids = sorted(task_ids)
        results = ti.xcom_pull(task_ids=ids, run_id=run_id) if ids else []
        runs = runs_of_results(results, f"run {run_id}")
    if not runs:
        raise AirflowFailException(
            f"baseline is {run_id!r}, and no run of this DAG by that id has results of its evaluations. Write a run "
            "id, the absolute path of a run directory, numbers per benchmark, or last_green"
        )
    return runs


def _runs(context: Context, run_id: str) -> dict[str, BenchmarkRun]:
    """What the gate of that run judged as its candidate."""
    ti: Any = context["ti"]
    (verdict,) = ti.xcom_pull(task_ids=[ti.task_id], key=xcom_keys.VERDICT, run_id=run_id) or [None]
    benchmarks = verdict.get("benchmarks", {}) if isinstance(verdict, Mapping) else {}
    return runs_of_results([part.get("candidate") for part in benchmarks.values()], f"run {run_id}")


def _green_gates(context: Context) -> Iterator[Mapping[str, Any]]:
    """The records of earlier gates that are green by now, the newest first."""
    ti: Any = context["ti"]
    records = _earlier(context)
    for start in range(0, len(records), _AT_ONCE):
        some = records[start : start + _AT_ONCE]
        ids = [str(record["run_id"]) for record in some]
        states = ti.get_task_states(dag_id=ti.dag_id, task_ids=[ti.task_id], run_ids=ids)
        for record in some:
            if states.get(record["run_id"], {}).get(ti.task_id) == "success":
                yield record


def _earlier(context: Context) -> list[Mapping[str, Any]]:
    ti: Any = context["ti"]
    values = ti.xcom_pull(task_ids=[ti.task_id], key=xcom_keys.GATE_INDEX, include_prior_dates=True)
    now = run_date(context)
    records = [value for value in values if isinstance(value, Mapping) and {"run_id", "at", "green"} <= value.keys()]
    before = [
        record for record in records if record["run_id"] != ti.run_id and datetime.fromisoformat(record["at"]) < now
    ]
    return sorted(before, key=lambda record: datetime.fromisoformat(record["at"]), reverse=True)
