"""The DAG that is shipped, over the config that is shipped: three benchmarks, one of which outlives its walltime."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest
import yaml
from stack import Run, Stack, wait_until

pytestmark = [pytest.mark.dag("nightly_benchmarks"), pytest.mark.slow]
ROLLOUTS = {"gpqa": 20, "aime25": 40, "mmlu_pro": 32}
INDEX = {name: index for index, name in enumerate(ROLLOUTS)}
EVAL, SUMMARY = "gym_evals.eval", "gym_evals.summary"
SECONDS = 420


def mean_reward(rollouts: str) -> float:
    rewards = [json.loads(line)["reward"] for line in Path(rollouts).read_text().splitlines()]
    return sum(rewards) / len(rewards)


@pytest.mark.parametrize("benchmark", ROLLOUTS)
def test_every_benchmark_returns_what_lies_on_the_cluster(run: Run, stack: Stack, benchmark: str):
    result = run.green(EVAL, INDEX[benchmark], seconds=SECONDS)
    assert (result["rollouts_done"], result["rollouts_expected"]) == (ROLLOUTS[benchmark],) * 2
    assert result["complete"] is True
    assert result["metrics"]["mean/reward"] == pytest.approx(mean_reward(result["rollouts"]))
    jobs = stack.jobs_below(result["job_dir"])
    assert [job.job_id for job in jobs] == result["job_ids"]
    assert [job.state.split()[0] for job in jobs] == result["job_states"]
    assert sum(job.elapsed for job in jobs) == result["chain_elapsed_seconds"]
    assert jobs[-1].elapsed == result["elapsed_seconds"]
    assert {job.name for job in jobs} == {result["job_name"]}


@pytest.mark.row("a job hits its walltime, is preempted, or its node fails")
def test_the_resumed_benchmark_shows_two_tries_with_their_own_logs_and_the_reason(run: Run):
    result = run.green(EVAL, INDEX["mmlu_pro"], seconds=SECONDS)
    first, second = result["job_ids"]
    assert result["job_states"] == ["TIMEOUT", "COMPLETED"]
    last = run.task(EVAL, INDEX["mmlu_pro"])["try_number"]
    assert last >= 2  # a busy Airflow may try once more by itself
    (reason,) = run.retry_reasons(EVAL, INDEX["mmlu_pro"])
    assert reason.startswith("TIMEOUT after 0:01:")
    assert reason.endswith("of 0:10:00 used; resuming")
    logs = tuple(run.log(EVAL, number, INDEX["mmlu_pro"]) for number in (1, last))
    assert [f"job {first} in " in log for log in logs] == [True, False]
    assert [f"job {second} in " in log for log in logs] == [False, True]
    assert reason in logs[0]


def test_the_place_of_a_run_can_be_read_in_its_log(run: Run):
    result = run.green(EVAL, INDEX["gpqa"], seconds=SECONDS)
    last = run.task(EVAL, INDEX["gpqa"])["try_number"]
    assert f"its logs will be in {result['logs']}" in run.log(EVAL, last, INDEX["gpqa"]), "the output path is no secret"


def test_the_chain_and_its_logs_lie_in_one_folder(run: Run):
    result = run.green(EVAL, INDEX["mmlu_pro"], seconds=SECONDS)
    folder = Path(result["job_dir"])
    assert [line.split()[0] for line in (folder / ".gym_job_chain").read_text().splitlines()] == result["job_ids"]
    assert {f"driver-{job}.log" for job in result["job_ids"]} <= {path.name for path in Path(result["logs"]).iterdir()}
    assert int((folder / ".gym_accumulated_walltime").read_text()) == result["chain_elapsed_seconds"]
    assert (folder / ".gym_infra_retries").read_text().strip() == "0"
    assert (folder / "job.sh").stat().st_mode & 0o777 == 0o600


def test_one_record_says_what_was_submitted_in_that_night(run: Run, stack: Stack):
    results = {name: run.green(EVAL, index, seconds=SECONDS) for name, index in INDEX.items()}
    result = results["mmlu_pro"]
    record = json.loads(Path(result["record"]).read_text())
    assert {entry["benchmark"]: entry for entry in record["benchmarks"]} == {
        name: {"benchmark": name, "job_dir": found["job_dir"], "job_id": found["job_id"], "error": None}
        for name, found in results.items()
    }
    assert record["run_dir"] == result["run_dir"]
    assert (record["executor"], record["cluster"], record["schema_version"]) == ("slurm", "cluster", 1)
    assert record["gym_job_id"] == Path(result["run_dir"]).name
    assert datetime.fromisoformat(record["submitted_at"]).tzinfo
    resolved = yaml.safe_load((Path(result["run_dir"]) / "resolved-config.yaml").read_text())
    assert resolved["job"]["output_path"] == str(stack.runs)
    assert set(resolved["driver"]["benchmarks"]) == set(ROLLOUTS)


def test_it_is_the_schedule_that_began_the_run(run: Run):
    found = run.api.call("GET", run.path)
    assert (found["run_type"], found["triggered_by"]) == ("scheduled", "timetable")


def test_tasks_are_called_after_their_benchmarks(run: Run):
    run.green(SUMMARY, seconds=SECONDS)
    assert {name: run.task(EVAL, index)["rendered_map_index"] for name, index in INDEX.items()} == {
        name: name for name in ROLLOUTS
    }


def test_the_summary_has_the_night_in_one_place(run: Run):
    summary = run.green(SUMMARY, seconds=SECONDS)
    rewards = {name: mean_reward(run.green(EVAL, index)["rollouts"]) for name, index in INDEX.items()}
    assert {name: found["metrics"]["mean/reward"] for name, found in summary.items()} == pytest.approx(rewards)
    assert {name: found["rollouts_done"] for name, found in summary.items()} == ROLLOUTS
    log = run.log(SUMMARY, 1)
    assert "32/32" in log
    assert "TIMEOUT, " in log
    # The scheduler ends the run some time after its last task.
    wait_until("the run's good end", 60, lambda: run.api.run_state(run.dag_id, run.run_id) == "success")
