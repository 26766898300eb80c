"""Airflow's database in a SQLite file, filled as by nights of evaluations: for tests and measurements of the pages."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow import settings
from sqlalchemy import insert

FIRST_NIGHT = datetime(2026, 1, 1, 2, tzinfo=UTC)


@contextmanager
def database(path: Path) -> Iterator[None]:
    """Airflow's ORM on this file, with all tables; afterwards on what it was on before."""
    from airflow.models import import_all_models
    from airflow.models.base import Base

    before = settings.SQL_ALCHEMY_CONN, settings.SQL_ALCHEMY_CONN_ASYNC
    settings.SQL_ALCHEMY_CONN = f"sqlite:///{path}"
    settings.SQL_ALCHEMY_CONN_ASYNC = f"sqlite+aiosqlite:///{path}"
    settings.configure_orm()
    try:
        if not path.exists():
            import_all_models()
            Base.metadata.create_all(settings.engine)
        yield
    finally:
        settings.engine.dispose()
        settings.SQL_ALCHEMY_CONN, settings.SQL_ALCHEMY_CONN_ASYNC = before
        settings.configure_orm()


class Evaluations:
    """Writes rows with plain INSERTs: what tasks would have left."""

    def __init__(self) -> None:
        self.runs = 0
        self.bundles: set[str] = set()

    def dag(self, dag_id: str, *, bundle: str = "dags", team: str | None = None) -> None:
        """A DAG; of a team, where Airflow has teams."""
        from airflow.models.dag import DagModel
        from airflow.models.dagbundle import DagBundleModel
        from airflow.models.team import Team, dag_bundle_team_association_table

        if bundle not in self.bundles:
            self._insert(DagBundleModel, [{"name": bundle, "active": True}])
            self.bundles.add(bundle)
            if team:
                self._insert(Team, [{"name": team}])
                self._insert(dag_bundle_team_association_table, [{"dag_bundle_name": bundle, "team_name": team}])
        values = {
            "dag_id": dag_id,
            "bundle_name": bundle,
            "max_active_tasks": 16,
            "max_consecutive_failed_dag_runs": 0,
            "has_task_concurrency_limits": False,
        }
        self._insert(DagModel, [values])

    def run(self, dag_id: str, tasks: Sequence[Mapping[str, Any]], run_id: str = "") -> str:
        """The next night's run of a DAG with these tasks; see `task`. The run's id."""
        from airflow.models.dagrun import DagRun
        from airflow.models.taskinstance import TaskInstance
        from airflow.models.xcom import XComModel

        self.runs += 1
        night = FIRST_NIGHT + timedelta(days=self.runs)
        run_id = run_id or f"scheduled__{night.isoformat()}"
        place = {"dag_id": dag_id, "run_id": run_id}
        self._insert(
            DagRun,
            [{**place, "id": self.runs, "run_type": "scheduled", "run_after": night, "logical_date": night,
              "state": "success"}],
        )  # fmt: skip
        instances, xcoms = [], []
        for number, one in enumerate(tasks):
            own = {**place, "task_id": one["task_id"], "map_index": one["map_index"]}
            instances.append(
                {**own, "pool": "default_pool", "state": one["state"], "try_number": one["tries"],
                 "start_date": night, "end_date": night + timedelta(minutes=5 + number), "pool_slots": 1,
                 "priority_weight": 1}
            )  # fmt: skip
            for key, value in one["xcoms"].items():
                xcoms.append({**own, "dag_run_id": self.runs, "key": key, "value": value, "timestamp": night})
        self._insert(TaskInstance, instances)
        if xcoms:
            self._insert(XComModel, xcoms)
        return run_id

    def nights(self, dag_id: str, benchmarks: Sequence[str], nights: int, seed: int = 1) -> None:
        """Many runs of a DAG with one task per benchmark: mostly green, some resumed, some red."""
        dice = random.Random(seed)
        with settings.engine.begin() as self._connection:
            for _ in range(nights):
                self.run(dag_id, [evaluation(name, dice.gauss(0.5, 0.02), **_luck(dice)) for name in benchmarks])
        self._connection = None

    _connection: Any = None

    def _insert(self, table: Any, rows: list[dict[str, Any]]) -> None:
        if self._connection is not None:
            self._connection.execute(insert(table), rows)
            return
        with settings.engine.begin() as connection:
            connection.execute(insert(table), rows)


def _luck(dice: random.Random) -> dict[str, Any]:
    draw = dice.random()
    return {"state": "failed"} if draw < 0.05 else {"jobs": ("TIMEOUT", "COMPLETED")} if draw < 0.2 else {}


def evaluation(
    benchmark: str,
    reward: float | None = 0.5,
    *,
    state: str | None = "success",
    jobs: Sequence[str] = ("COMPLETED",),
    task_id: str = "",
    map_index: int = -1,
    cluster: str = "cluster",
    xcoms: Mapping[str, Any] | None = None,
    **result: Any,
) -> dict[str, Any]:
    """A task instance for `Evaluations.run`, with the XComs of a `GymEvalOperator` in that state."""
    place = {
        "benchmark": benchmark,
        "cluster": cluster,
        "job_id": str(100 + len(jobs)),
        "run_dir": "/scratch/me/evals/gym-job-20260101T020000Z-abc123",
        "job_dir": f"/scratch/me/evals/gym-job-20260101T020000Z-abc123/{benchmark}",
        "logs": f"/scratch/me/evals/gym-job-20260101T020000Z-abc123/{benchmark}/logs",
    }
    found: dict[str, Any] = {"gym_job": place}
    if state == "success":
        ids = [str(101 + at) for at in range(len(jobs))]
        found["return_value"] = place | {
            "state": "COMPLETED",
            "job_ids": ids,
            "job_states": list(jobs),
            "elapsed_seconds": 60,
            "chain_elapsed_seconds": 60 * len(jobs),
            "rollouts_done": 20,
            "rollouts_expected": 20,
            "metrics": {} if reward is None else {"mean/reward": reward, "mean/output_tokens": 812.5},
            **result,
        }
    return {
        "task_id": task_id or benchmark,
        "map_index": map_index,
        "state": state,
        "tries": len(jobs),
        "xcoms": found | dict(xcoms or {}),
    }


def task(task_id: str, state: str | None = "success", **xcoms: Any) -> dict[str, Any]:
    """Any other task instance."""
    return {"task_id": task_id, "map_index": -1, "state": state, "tries": 1, "xcoms": xcoms}
