"""Many evaluations on an Airflow of several machines, two of which are lost half way."""

from __future__ import annotations

import json
import os
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy
import pytest
from browsing import token
from sampling import Samples, sampling
from spread import Spread
from stack import Run, Stack, wait_until

HERE = Path(__file__).parent
DAGS = [HERE / "dags_load" / "e2e_load.py", HERE / "dags" / "e2e_configs.py"]
WIDE, MANY, INSIDE = "e2e_load_wide", "e2e_load_many", "e2e_load_inside"
EVAL, SUMMARY = "gym_evals.eval", "gym_evals.summary"
TOLD, KILLED = "e2e_load_told", "e2e_load_killed"
INNER = [f"in{number}" for number in range(4)]
# Names that SQLite takes and PostgreSQL does not.
TOLD_METRICS = r'{"nul\u0000": 1, "half\ud83d": 2, "fine": 3}'
pytestmark = pytest.mark.spread


def load_config(folder: Path, wide: int) -> dict[str, Any]:
    """`wide` benchmarks, of which every other one waits at a gate, and those of the other DAGs. No job may fail."""

    def benchmark(name: str, gate: str) -> dict[str, Any]:
        standin: dict[str, Any] = {"gate": f"{folder}/gates/{gate}", "gate_after": 1} if gate else {}
        return {"run": {"config_paths": [f"benchmarks/{name}/config.yaml"], "limit": 2, "standin": standin}}

    gates = {f"wide{number:03}": "load" if number % 2 else "" for number in range(wide)}
    gates |= {"single": "", "killed": "never"} | dict.fromkeys(INNER, "load")
    return {
        "services": {},
        "compute": {
            "slurm": {
                "type": "slurm",
                "account": "eval",
                "walltime": "01:00:00",
                "node_pools": {"main": {"partition": "debug"}},
            }
        },
        "driver": {
            "container": "gym:stand-in",
            "benchmarks": {name: benchmark(name, gate) for name, gate in gates.items()}
            | {"told": {"command": f"printf '%s' '{TOLD_METRICS}' > artifacts/results.json"}},
        },
        "job": {"output_path": str(folder / "runs")},
        "otel": {"enabled": False},
    }


def make_spread(slurm: Stack, wide: int) -> Spread:
    made = Spread(slurm, DAGS)
    (made.dags / "load.yaml").write_text(json.dumps(load_config(made.folder, wide)))
    (made.gates / "load").unlink(missing_ok=True)
    return made


@pytest.fixture(scope="module")
def spread(slurm: Stack) -> Iterator[Spread]:
    """Up, in the place of the first Airflow."""
    slurm.down_airflow()
    made = make_spread(slurm, 12)
    made.up()
    yield made
    if "GYM_E2E_DIR" not in os.environ:
        made.down()


class Load:
    """Runs of the three DAGs side by side."""

    def __init__(self, spread: Spread, many: int) -> None:
        self.spread = spread
        self.before = set(spread.runs.iterdir())
        begun = spread.start([WIDE, INSIDE, MANY])
        self.wide, self.inside = begun[WIDE], begun[INSIDE]
        self.many = [begun[MANY], *(new_run(spread, MANY) for _ in range(many - 1))]
        self.runs = [self.wide, self.inside, *self.many]

    def states(self) -> Counter[str]:
        """How many evaluations are in which state."""
        return Counter(task["state"] or "none" for task in self.wide.tasks().values() if task["task_id"] == EVAL)

    def lose_a_worker_and_a_triggerer(self, wide: int) -> tuple[str, str]:
        """Half way: one that is busy of each. The other two go on alone."""
        wait_until("half of the benchmarks have jobs", 1800, lambda: self._with_jobs() >= wide / 2, 2, self.states)
        inner = wait_until("tasks are in the workers", 120, self._in_workers, 1)
        worker = inner[0]["hostname"]
        triggerer = wait_until("a triggerer has triggers", 60, self._triggerers, 0.5).most_common()[0][0]
        self.spread.crash(worker, triggerer)
        return worker, triggerer

    def _triggerers(self) -> Counter[str]:
        """How many triggers each triggerer has."""
        found = (task for task in self.wide.tasks().values() if task["state"] == "deferred" and task["triggerer_job"])
        return Counter(task["triggerer_job"]["hostname"] for task in found)

    def _with_jobs(self) -> int:
        found = self.states()
        return found["deferred"] + found["success"]

    def _in_workers(self) -> list[dict[str, Any]]:
        found = [task for task in self.inside.tasks().values() if task["state"] == "running"]
        return [task for task in found if self.inside.api.result(task, "gym_job")]

    def wait_for_the_end(self, seconds: float) -> None:
        for run in self.runs:
            wait_until(
                f"the good end of {run.dag_id} {run.run_id}",
                seconds,
                lambda run=run: run.api.run_state(run.dag_id, run.run_id) in ("success", "failed"),
                2,
                lambda run=run: str(Counter(task["state"] for task in run.tasks().values())),
            )
            assert run.api.run_state(run.dag_id, run.run_id) == "success", stories(run)

    def assert_right(self) -> None:
        """One job for each, whose result is that of its own files, and no other job."""
        results = [
            run.api.result(task)
            for run in self.runs
            for task in run.tasks().values()
            if task["task_id"] in (EVAL, "inside", "only")
        ]
        found = [
            job
            for job in self.spread.jobs_below(self.spread.runs)
            if Path(job.folder).parent not in self.before and Path(job.folder).name not in ("told", "killed")
        ]
        jobs, began = {job.folder: job for job in found}, Counter(job.folder for job in found)
        for result in results:
            name = Path(result["job_dir"]).name
            assert (result["benchmark"], result["rollouts_done"], result["complete"]) == (name, 2, True)
            assert result["metrics"] == metrics_in(Path(result["job_dir"])), name
            assert result["job_ids"] == [jobs[result["job_dir"]].job_id]
            assert jobs[result["job_dir"]].state == "COMPLETED", name
        mine = {result["job_dir"] for result in results}
        assert len(mine) == len(results), "each has a directory of its own"
        assert {folder: began[folder] for folder in mine} == dict.fromkeys(mine, 1), "one job for each"
        assert set(began) == mine, "nobody has left another job"
        assert not {job.job_id for job in found} & self.spread.live_jobs()


def new_run(spread: Spread, dag_id: str) -> Run:
    made = spread.change("POST", f"dags/{dag_id}/dagRuns", {"logical_date": None})
    return Run(spread, dag_id, made["dag_run_id"])


def metrics_in(job_dir: Path) -> dict[str, float]:
    """What gym has written."""
    (entry,) = json.loads((job_dir / "artifacts" / "rollouts_aggregate_metrics.json").read_text())
    return entry["key_metrics"]


def stories(run: Run) -> str:
    bad = [key for key, task in run.tasks().items() if task["state"] not in ("success", "skipped")]
    return "\n".join(run.story(*key) for key in bad[:3])


def left_on(machine: Path) -> list[str]:
    """Files of a part that are not Airflow's configuration and DAGs."""
    mine = {machine / "airflow", machine / "dags"}
    return [str(path) for path in machine.rglob("*") if path.is_file() and not mine & set(path.parents)]


@pytest.fixture(scope="module")
def load(spread: Spread) -> Iterator[Load]:
    """Ended, after a worker and a triggerer were lost."""
    made = Load(spread, 4)
    made.others = spread.start([TOLD, KILLED])
    made.lost = made.lose_a_worker_and_a_triggerer(12)
    spread.open_gate("load")
    made.wait_for_the_end(240)
    return made


def test_a_worker_and_a_triggerer_are_lost_half_way_and_every_benchmark_has_one_job_and_its_own_result(load: Load):
    load.assert_right()
    inner = list(load.inside.tasks().values())
    assert {task["hostname"] for task in inner}.isdisjoint(load.lost)
    assert max(task["try_number"] for task in inner) > 1, "some were in the worker that was lost"
    rows = load.wide.green(SUMMARY)
    assert {(name, row["state"]) for name, row in rows.items()} == {(f"wide{n:03}", "success") for n in range(12)}


@pytest.mark.parametrize("task_id", ["deferred", "in_worker"])
def test_marking_a_task_cancels_its_job_whichever_machine_has_it_now(load: Load, spread: Spread, task_id: str):
    run = load.others[KILLED]

    def place() -> dict[str, Any] | None:
        task = run.task(task_id)
        has_it = task["hostname"] if task["state"] == "running" else (task.get("triggerer_job") or {}).get("hostname")
        return run.api.result(task, "gym_job") if has_it and has_it not in load.lost else None

    found = wait_until("the task is where machines live", 120, place, say=lambda: run.story(task_id))
    run.mark(task_id, "failed")
    wait_until("the job is gone", 60, lambda: found["job_id"] not in spread.live_jobs(), say=lambda: run.story(task_id))
    (job,) = wait_until(
        "its end", 60, lambda: [job for job in spread.jobs_below(found["job_dir"]) if job.end != "Unknown"]
    )
    assert job.state.startswith("CANCELLED")


def test_what_postgresql_refuses_in_a_metrics_name_is_no_reason_to_fail(load: Load):
    assert load.others[TOLD].green("told")["metrics"] == {"nul\ufffd": 1, "half\ufffd": 2, "fine": 3}


def test_no_machine_keeps_what_another_one_needs(load: Load, spread: Spread):
    for part in spread.parts:
        assert left_on(spread.machine(part)) == []


def test_the_pages_are_the_same_on_postgresql(load: Load, spread: Spread):
    assert "postgresql" in (spread.home / "settings").read_text()
    paths = ("", f"dags/{WIDE}/benchmark?name=wide003", f"dags/{WIDE}/compare?name=wide003")
    paths += (f"dags/{WIDE}/chain?run_id={quote(load.wide.run_id)}&task_id={EVAL}&map_index=3",)
    paths += (f"dags/{WIDE}/report?run_id={quote(load.wide.run_id)}",)
    for path in paths:
        assert "wide003" in page(spread, path), path
    # The query for one benchmark looks into JSON as text.
    assert f'data-run="{load.wide.run_id}"' in page(spread, paths[1])


@pytest.mark.soak
def test_200_benchmarks_and_50_runs_at_once_end_right_on_an_airflow_that_stays_responsive_and_as_large(slurm: Stack):
    spread = make_spread(slurm, 200)
    spread.up()
    try:
        with sampling(spread) as samples:
            load = Load(spread, 50)
            load.lose_a_worker_and_a_triggerer(200)
            spread.open_gate("load")
            load.wait_for_the_end(3600)
            rush = time.monotonic() - samples.begin
            load.assert_right()
            spread.start_again()
            go_on(spread, 60 * float(os.environ.get("GYM_SOAK_MINUTES", "20")))
        print(f"\n200 benchmarks and 50 runs in {rush:.0f} s, {time.monotonic() - samples.begin:.0f} s in all")
        print(samples.table())
        assert_responsive(samples)
        assert_flat(samples, rush)
    finally:
        spread.down()


def go_on(spread: Spread, seconds: float) -> None:
    """Small runs, four at a time, one after the other."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for run in [new_run(spread, MANY) for _ in range(4)]:
            run.green("only", seconds=600)


def assert_responsive(samples: Samples) -> None:
    assert samples.problems == []
    for name, most in (("API health, s", 5), ("simple SQL query, s", 1), ("connections to PostgreSQL", 100)):
        assert numpy.percentile(samples.values(name), 95) < most, name
    for name in samples.found:
        if name.startswith("heartbeat"):
            assert numpy.percentile(samples.values(name), 95) < 30, name


def assert_flat(samples: Samples, rush: float) -> None:
    """After a third of the time to warm up, the last third of the soak needs no more than the one before."""
    end = max(at for at, _ in samples.found["API health, s"])
    first, second = (rush + (end - rush) * share / 3 for share in (1, 2))
    for name in samples.found:
        if name.startswith("largest process"):
            before, after = (numpy.median(samples.values(name, *span)) for span in ((first, second), (second, end)))
            print(f"{name}: {before:.0f}, then {after:.0f}")
            assert after < before * 1.05 + 10, name


def page(spread: Spread, path: str) -> str:
    headers = {"Authorization": f"Bearer {token(spread, 'reader')}"}
    request = urllib.request.Request(f"{spread.api.url}/gym/{path}", headers=headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read().decode()
