"""Which earlier run a gate compares with: through what Airflow lets a worker ask, never through its database.

Every gate leaves a small XCom `gym_gate`: its run, that run's date, which benchmarks it found good. A later run asks
for those of all earlier runs, takes the newest first, and believes one only while Airflow says that its gate is green.
So a person who marks a red gate as success makes its run the new baseline, and one who marks a green one as failed
unmakes it. Dates are logical dates, or `run_after` where a run has none (those that an asset started): a backfill of an
older date never sees a newer run.

An instance of a mapped gate is known by what it evaluates, for a list that is mapped over grows in front as well: the
baseline of a benchmark is what an earlier run's gate said of it, in whichever instance. Where several instances of that
run evaluated it (checkpoints, models), only the map index tells them apart, and that of the same index counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException

from airflow_gym_provider import xcom_keys
from airflow_gym_provider.operators._gate_runs import BenchmarkRun, results_before, runs_of_results

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

    from airflow_gym_provider.operators.gate import GymGateOperator

_AT_ONCE = 20


def run_date(context: Context) -> datetime:
    """What earlier and later mean for the present run."""
    run: Any = context["dag_run"]
    date: datetime = run.logical_date or run.run_after
    return date


def index_values(context: Context, green: Sequence[str], *, fails: bool) -> dict[str, Any]:
    """The XCom `gym_gate`. `green`: benchmarks that a later run may be compared with; `fails`: the task ends red."""
    ti: Any = context["ti"]
    told = {"run_id": ti.run_id, "map_index": map_index(ti), "at": run_date(context).isoformat()}
    return told | {"green": list(green), "fails": fails}


def map_index(place: Any) -> int:
    """That of a task instance, or of the one that left this XCom; -1 for one that is not mapped, as Airflow has it."""
    found = place.get("map_index") if isinstance(place, Mapping) else getattr(place, "map_index", None)
    return found if isinstance(found, int) else -1


def last_green(context: Context, benchmarks: Iterable[str]) -> dict[str, BenchmarkRun]:
    """Benchmark to its newest earlier good run. Those of the newest green gate are there though not asked for.

    So a benchmark that had a result the last time and has none now is noticed. Of a mapped gate these are those of the
    instance with the same index, unless it had nothing in common with this one: then it is another one's place now.
    """
    found: dict[str, BenchmarkRun] = {}
    asked, own = set(benchmarks), map_index(context["ti"])
    wanted: set[str] | None = None
    for run_id, green in _green_gates(context):
        chosen = _chosen(_judged(context, run_id), own)
        good = {
            name: index
            for name, (index, _) in chosen.items()
            if index in green and (green[index]["fails"] or name in green[index]["green"])
        }
        if not good:
            continue
        if wanted is None:
            wanted = _wanted(good, asked, own)
        found |= {name: chosen[name][1] for name in good if name in wanted and name not in found}
        if wanted <= found.keys():
            break
    return found


def _wanted(there: Mapping[str, int], asked: set[str], own: int) -> set[str]:
    """The benchmarks to compare: those asked for, and those that the earlier run of this instance had besides.

    `there`: benchmark to the map index of the gate that judged it in the earlier run.
    """
    before = {name for name, index in there.items() if index == own or own < 0}
    return asked if own >= 0 and asked and not asked & before else asked | before


def named_run(
    context: Context, run_id: str, gate: GymGateOperator, benchmarks: Iterable[str]
) -> dict[str, BenchmarkRun]:
    """The results of a run of this DAG, from its gate or from the tasks before it. Raises AirflowFailException.

    Benchmarks that are not asked for are there as well, as in `last_green`.
    """
    own = map_index(context["ti"])
    chosen = _chosen(_judged(context, run_id), own)
    wanted = _wanted({name: index for name, (index, _) in chosen.items()}, set(benchmarks), own)
    runs = {name: run for name, (_, run) in chosen.items() if name in wanted}
    if not chosen:
        runs = runs_of_results(results_before(gate, context["ti"], run_id=run_id), f"run {run_id}")
    if not chosen and not runs:
        raise AirflowFailException(
            f"baseline is {run_id!r}, and no run of this DAG by that id has results of its evaluations. Write a run "
            "id, the absolute path of a run directory, numbers per benchmark, or last_green"
        )
    return runs


def _judged(context: Context, run_id: str) -> list[tuple[int, dict[str, BenchmarkRun]]]:
    """What the gate of that run judged as its candidate, each instance of it with its map index."""
    ti: Any = context["ti"]
    found = []
    for verdict in ti.xcom_pull(task_ids=[ti.task_id], key=xcom_keys.VERDICT, run_id=run_id) or ():
        benchmarks = verdict.get("benchmarks", {}) if isinstance(verdict, Mapping) else {}
        runs = runs_of_results([part.get("candidate") for part in benchmarks.values()], f"run {run_id}")
        found.append((map_index(verdict), runs))
    return found


def _chosen(judged: Iterable[tuple[int, Mapping[str, BenchmarkRun]]], own: int) -> dict[str, tuple[int, BenchmarkRun]]:
    """Benchmark to what the gate with the map index `own` is compared with, and the map index that judged it."""
    places: dict[str, list[tuple[int, BenchmarkRun]]] = {}
    for index, runs in judged:
        for name, run in runs.items():
            places.setdefault(name, []).append((index, run))
    mine = {name: [place for place in found if place[0] == own] for name, found in places.items()}
    kept = {name: mine[name] or found for name, found in places.items()}
    return {name: found[0] for name, found in kept.items() if len(found) == 1}


def _green_gates(context: Context) -> Iterator[tuple[str, dict[int, Mapping[str, Any]]]]:
    """Earlier runs with a gate that is green by now, the newest first: the run's id, and its records by map index."""
    ti: Any = context["ti"]
    runs: dict[str, dict[int, Mapping[str, Any]]] = {}
    for record in _earlier(context):
        runs.setdefault(str(record["run_id"]), {})[map_index(record)] = record
    ids = list(runs)
    for start in range(0, len(ids), _AT_ONCE):
        some = ids[start : start + _AT_ONCE]
        states = ti.get_task_states(dag_id=ti.dag_id, task_ids=[ti.task_id], run_ids=some)
        for run_id in some:
            told = states.get(run_id, {})
            green = {at: record for at, record in runs[run_id].items() if told.get(_state_key(ti, at)) == "success"}
            if green:
                yield run_id, green


def _state_key(ti: Any, index: int) -> str:
    """How Airflow calls an instance of this task where it tells the states of many."""
    return ti.task_id if index < 0 else f"{ti.task_id}_{index}"


def _earlier(context: Context) -> list[Mapping[str, Any]]:
    ti: Any = context["ti"]
    values = ti.xcom_pull(task_ids=[ti.task_id], key=xcom_keys.GATE_INDEX, include_prior_dates=True)
    now = run_date(context)
    records = [value for value in values if isinstance(value, Mapping) and {"run_id", "at", "green"} <= value.keys()]
    before = [
        record for record in records if record["run_id"] != ti.run_id and datetime.fromisoformat(record["at"]) < now
    ]
    return sorted(before, key=lambda record: datetime.fromisoformat(record["at"]), reverse=True)
