"""Several benchmarks of one config: red hides nobody, and one that is cleared runs alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from stack import Run, Stack, wait_until

EVAL, SUMMARY = "gym_evals.eval", "gym_evals.summary"


@pytest.mark.dag("e2e_group")
def test_one_red_benchmark_hides_nobody_and_is_cleared_alone(run: Run, stack: Stack):
    log = run.red(SUMMARY)
    fine, place = run.green(EVAL, 0), run.api.result(run.task(EVAL, 1), "gym_job")
    assert (EVAL, 2) not in run.tasks(), "the third benchmark was not wanted"
    found = run.api.result(run.task(SUMMARY))
    assert {name: values["state"] for name, values in found.items()} == {"fine": "success", "broken": "failed"}
    assert found["fine"]["metrics"]["mean/reward"] == fine["metrics"]["mean/reward"]
    assert found["fine"]["reason"] is None
    assert found["broken"]["reason"].startswith("FAILED 3:0")
    assert found["broken"]["job_ids"] == [place["job_id"]]
    assert "1 of 2 benchmarks are not green" in log
    assert "4/4" in log
    assert "keys: *** ***" in run.red(EVAL, 1), "secrets of a variable and of a connection are masked in mapped tasks"
    wait_until("the run's bad end", 60, lambda: run.api.run_state(run.dag_id, run.run_id) == "failed")
    # One directory and one record for both of them.
    assert fine["run_dir"] == place["run_dir"]
    entries = json.loads(Path(fine["record"]).read_text())["benchmarks"]
    assert {entry["benchmark"]: entry["job_id"] for entry in entries} == {
        "fine": fine["job_id"],
        "broken": place["job_id"],
    }

    tries = {key: task["try_number"] for key, task in run.tasks().items()}
    stack.open_gate("mended")
    run.clear(EVAL, 1, downstream=True)
    wait_until("the run's good end", 240, lambda: run.api.run_state(run.dag_id, run.run_id) == "success")
    mended = run.green(EVAL, 1)
    assert mended["job_dir"] == place["job_dir"], "a red one goes on in its directory"
    assert {name: values["state"] for name, values in run.green(SUMMARY).items()} == {
        "fine": "success",
        "broken": "success",
    }
    again = {key for key, task in run.tasks().items() if task["try_number"] > tries[key]}
    assert again == {(EVAL, 1), (SUMMARY, -1)}
    assert [job.job_id for job in stack.jobs_below(fine["job_dir"])] == [fine["job_id"]]
    assert [job.state for job in stack.jobs_below(place["job_dir"])] == ["FAILED", "COMPLETED"]


@pytest.mark.dag("e2e_group_refused")
def test_a_choice_of_nothing_is_refused_before_anything_is_submitted(run: Run, stack: Stack):
    log = run.red("gym_evals.validate")
    assert "'never_run' matches none; did you mean 'neverrun'?" in log
    assert "'x*' matches none" in log
    assert "Nothing was evaluated" in run.red(SUMMARY)
    assert run.end_of(EVAL)["state"] == "upstream_failed"
    assert "gym-neverrun-" not in stack.shell("sacct -nPXa -S now-1days -o JobName%200")


HEARING = ("e2e_hears_announced", "e2e_hears_known")


@pytest.mark.dag("e2e_announcing", listening=HEARING)
@pytest.mark.parametrize(
    ("benchmark", "task", "count"), [("announced", (EVAL, 0), 3), ("known", ("known", -1), 2)], ids=HEARING
)
def test_a_green_result_starts_the_dag_that_waits_for_its_asset(
    run: Run, stack: Stack, benchmark: str, task: tuple[str, int], count: int
):
    result = run.green(*task)
    dag_id = f"e2e_hears_{benchmark}"
    (hearing,) = wait_until(f"a run of {dag_id}", 60, lambda: stack.runs_of(dag_id, "asset_triggered", run))
    (heard,) = hearing.green("hear")
    assert (heard["cluster"], heard["complete"]) == ("slurm", True)
    assert (heard["rollouts_done"], heard["rollouts_expected"]) == (count, count)
    same = ("benchmark", "metrics", "record", "run_dir", "job_dir", "job_id")
    assert {name: heard[name] for name in same} == {name: result[name] for name in same}


@pytest.mark.dag("e2e_decorated")
def test_a_decorated_function_is_asked_once_for_all_tries(run: Run, stack: Stack):
    for index, limit in enumerate((4, 5)):
        result = run.green("decorated", index)
        assert (result["rollouts_expected"], result["job_states"]) == (limit, ["FAILED", "COMPLETED"])
        assert run.task("decorated", index)["try_number"] >= 2
        assert (stack.folder / f"decorated-{limit}").read_text() == "try 1\n"
