"""One evaluation as the pages see it, from what its task left in Airflow's database. Pure.

Whatever a task left is data from elsewhere, perhaps written by another release: what is missing or of another type
counts as absent and never breaks a page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from airflow_gym_provider.results.headline import headline
from airflow_gym_provider.results.numbers import is_number

_RED = frozenset({"failed", "upstream_failed"})
_OVER = frozenset({"success", "failed", "upstream_failed", "skipped", "removed"})
_FIRST_METRICS = ("mean/reward", "reward", "pass@1/accuracy", "accuracy", "score")


@dataclass(frozen=True)
class RunRow:
    """A task instance and its XComs as the database holds them. `at` is the DAG run's `run_after`.

    `label`: what Airflow's grid calls an instance of a mapped task, where the task says how (`map_index_template`).
    """

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    state: str | None
    tries: int
    at: datetime | None
    start: datetime | None
    end: datetime | None
    job: Any = None
    result: Any = None
    label: str | None = None

    @property
    def place(self) -> str:
        """The instance as people write it: "eval", "eval [3]" or "eval [gpqa]"."""
        return self.task_id if self.map_index < 0 else f"{self.task_id} [{self.label or self.map_index}]"

    @property
    def instance(self) -> str:
        """The same in an address: by its map index, since a label may change from one try to the next."""
        return self.task_id if self.map_index < 0 else f"{self.task_id}[{self.map_index}]"


@dataclass(frozen=True)
class EvalRun:
    """One benchmark in one DAG run. `seconds`: what all its jobs ran; `jobs`: (id, how it ended), oldest first."""

    row: RunRow
    benchmark: str
    cluster: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)
    headline: str = ""
    done: int | None = None
    expected: int | None = None
    jobs: tuple[tuple[str, str], ...] = ()
    seconds: int | None = None
    job_dir: str = ""

    @property
    def light(self) -> str:
        """green, red, live (it goes on) or grey (skipped, removed)."""
        state = self.row.state or ""
        if state == "success":
            return "green"
        if state in _RED:
            return "red"
        return "grey" if state in _OVER else "live"

    @property
    def resumed(self) -> bool:
        """Whether it took more than one Slurm job."""
        return len(self.jobs) > 1 or (not self.jobs and self.row.tries > 1)

    def value(self, metric: str = "") -> float | None:
        """The metric's value, the headline's unless one is named; None where it has none."""
        return self.metrics.get(metric or self.headline)


@dataclass(frozen=True)
class Series:
    """One benchmark of one DAG on one cluster: its runs, newest first.

    `instance`: the task instance that they are of, where one DAG run evaluates the benchmark several times; else "".
    """

    dag_id: str
    benchmark: str
    cluster: str
    runs: tuple[EvalRun, ...]
    instance: str = ""

    @property
    def headline(self) -> str:
        """The metric to show: that of the newest run which has one."""
        return next((run.headline for run in self.runs if run.headline), "")

    @property
    def last(self) -> EvalRun:
        """The newest run."""
        return self.runs[0]

    @property
    def place(self) -> str:
        """The instance as people write it; "" where there is nothing to tell apart."""
        return self.last.row.place if self.instance else ""

    @property
    def metric_names(self) -> list[str]:
        """All metrics of any run, the headline first."""
        names = dict.fromkeys([self.headline] if self.headline else [])
        for run in self.runs:
            names.update(dict.fromkeys(run.metrics))
        return list(names)

    def greens(self) -> list[EvalRun]:
        """The green runs that have the headline's value, newest first."""
        return [run for run in self.runs if run.light == "green" and run.value(self.headline) is not None]


def read_run(row: RunRow, benchmark: str = "") -> EvalRun | None:
    """The evaluation of a row; None when it does not say which benchmark it is and `benchmark` is not known either."""
    job, result = _mapping(row.job), _mapping(row.result)
    values = {**job, **result}
    name = _text(result.get("benchmark")) or _text(job.get("benchmark")) or benchmark
    if not name:
        return None
    given = _mapping(result.get("metrics"))
    # as floats: the difference of two integers may be beyond every float
    metrics = headline({str(key): float(value) for key, value in given.items() if is_number(value)}, len(given))
    return EvalRun(
        row,
        benchmark=name,
        cluster=_text(values.get("cluster")),
        metrics=metrics,
        headline=_headline(result.get("headline"), metrics),
        done=_count(values.get("rollouts_done")),
        expected=_count(values.get("rollouts_expected")),
        jobs=_jobs(values),
        seconds=_count(values.get("chain_elapsed_seconds")),
        job_dir=_text(values.get("job_dir")),
    )


def collect(rows: Iterable[RunRow]) -> list[Series]:
    """The rows as series, by benchmark and DAG. A row that says nothing of itself belongs where its task did before.

    A benchmark is followed through whatever tasks evaluate it, until a DAG run evaluates it several times (models,
    checkpoints): then each task instance is a series of its own.
    """
    rows = list(rows)
    known: dict[tuple[str, str, int], str] = {}
    for row in rows:  # newest first: the newest name of a task instance counts
        if name := _text(_mapping(row.job).get("benchmark")):
            known.setdefault((row.dag_id, row.task_id, row.map_index), name)
    runs = [read_run(row, known.get((row.dag_id, row.task_id, row.map_index), "")) for row in rows]
    found = [run for run in runs if run is not None]
    clusters = _clusters(found)
    series: dict[tuple[str, str, str], list[EvalRun]] = {}
    for run in found:
        place = (run.benchmark, run.row.dag_id)
        # a run that does not say where it was, as one that failed before it had a place, belongs to the newest cluster
        cluster = run.cluster or clusters.get(place, "")
        series.setdefault((*place, cluster), []).append(run)
    return [
        Series(dag, name, cluster, tuple(some), instance)
        for (name, dag, cluster), runs in sorted(series.items())
        for instance, some in sorted(_by_instance(runs).items())
    ]


def _by_instance(runs: Sequence[EvalRun]) -> dict[str, list[EvalRun]]:
    """The runs by task instance where one DAG run has several that say so themselves; otherwise all, by ""."""
    told = Counter(run.row.run_id for run in runs if run.job_dir or run.jobs)
    several = any(count > 1 for count in told.values())
    found: dict[str, list[EvalRun]] = {}
    for run in runs:
        found.setdefault(run.row.instance if several else "", []).append(run)
    return found


def change(run: EvalRun, before: EvalRun | None, metric: str) -> float | None:
    """By how much the metric moved from `before`; None when either has no value."""
    if before is None:
        return None
    new, old = run.value(metric), before.value(metric)
    return None if new is None or old is None else new - old


def previous_green(runs: Sequence[EvalRun], at: int, metric: str) -> EvalRun | None:
    """The green run before that at index `at` (newest first) that has the metric."""
    later = runs[at + 1 :]
    return next((run for run in later if run.light == "green" and run.value(metric) is not None), None)


def _clusters(runs: Iterable[EvalRun]) -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    for run in runs:
        if run.cluster:
            found.setdefault((run.benchmark, run.row.dag_id), run.cluster)
    return found


def _headline(wanted: object, metrics: Mapping[str, float]) -> str:
    """The metric to show first: what the task itself calls so, a mean reward, or the first there is."""
    name = wanted.get("metric") if isinstance(wanted, Mapping) else wanted
    if isinstance(name, str) and name in metrics:
        return name
    for first in _FIRST_METRICS:
        for key in metrics:
            if key == first or key.endswith(f"/{first}"):
                return key
    return next(iter(metrics), "")


def _jobs(values: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    ids, states = values.get("job_ids"), values.get("job_states")
    if isinstance(ids, list):
        words = states if isinstance(states, list) else []
        padded = [*words, *[""] * (len(ids) - len(words))]
        return tuple((str(job), str(state)) for job, state in zip(ids, padded, strict=False))
    job = _text(values.get("job_id"))
    return ((job, ""),) if job else ()


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _count(value: object) -> int | None:
    return int(value) if is_number(value) else None
