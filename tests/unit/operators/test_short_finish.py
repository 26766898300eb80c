"""The short way to green, and everything that must take the long one."""

import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from airflow_gym_provider.chain import ChainKey
from airflow_gym_provider.exceptions import SlurmUnreachableError
from airflow_gym_provider.hooks.slurm import SlurmHook
from airflow_gym_provider.operators._cluster import Cluster
from airflow_gym_provider.operators._finish import FRESH, finished
from airflow_gym_provider.operators._plan import ChainPlan


@pytest.fixture
def cluster(tmp_path):
    """A chain on this machine that is complete: one job, 4 of 4 rollouts, metrics."""
    folder = tmp_path / "run" / "gpqa"
    (folder / "artifacts").mkdir(parents=True)
    (folder / ".gym_job_chain").write_text("60\n")
    rollouts = folder / "artifacts" / "rollouts.jsonl"
    rollouts.write_text("{}\n" * 4)
    (folder / "artifacts" / "rollouts_materialized_inputs.jsonl").write_text("{}\n" * 4)
    metrics = '[{"agent_ref": {"name": "agent"}, "key_metrics": {"mean/reward": 0.5}}]'
    (folder / "artifacts" / "rollouts_aggregate_metrics.json").write_text(metrics)
    plan = ChainPlan(
        benchmark="gpqa",
        run_dir=str(folder.parent),
        job_dir=str(folder),
        job_name="gym-gpqa-1",
        key=vars(ChainKey("d", "r", "t")),
        results={"rollouts_path": str(rollouts), "require_complete": True, "judged_by": "rollouts"},
        limits={},
    )
    with SlurmHook() as hook:
        yield Cluster(hook, plan)


def event(age=0.0, **changes):
    job = {"job_id": "60", "state": "COMPLETED", "ending": "COMPLETED", "exit_code": 0, "signal": 0, "elapsed": 30}
    job |= {"failed_steps": ["step 60.0 FAILED 1:0"], "accounted": True}
    values = {"reason": "ended", "text": "", "jobs": [job], "unknown_for": 0, "at": time.time() - age}
    for name, value in changes.items():
        (job if name in job else values)[name] = value
    return values


def test_what_was_just_seen_and_lies_there_is_enough(cluster):
    look, verdict = finished(cluster, event())
    assert verdict.reason.startswith("4 of 4")
    assert look.survey.metrics == {"mean/reward": 0.5}
    assert (look.jobs[0].elapsed, look.jobs[0].failed_steps) == (30, ("step 60.0 FAILED 1:0",))


def test_what_they_were_asked_for_comes_with_them(cluster):
    assert finished(cluster, event())[0].asked == ""
    (Path(cluster.plan.job_dir) / ".gym_asked").write_text('{"models": "m"}\n')
    assert finished(cluster, event())[0].asked == '{"models": "m"}\n'


@pytest.mark.parametrize(
    "changes",
    [
        {"ending": "FAILED"},
        {"ending": None},
        {"accounted": False},
        {"reason": "lost"},
        {"age": FRESH + 1},
        {"age": -60},
        {"at": None},
        {"job_id": "59"},
        {"jobs": []},
    ],
)
def test_doubts_about_the_event(cluster, changes):
    assert finished(cluster, event(**changes)) is None


@pytest.mark.parametrize("event_", [None, {}, {"status": "from another release"}])
def test_no_event_of_ours(cluster, event_):
    assert finished(cluster, event_) is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (".gym_cancelled", "1 60 the task was cleared in Airflow\n"),
        (".gym_job_chain", "59\n60\n"),
        (".gym_job_chain", ""),
        ("artifacts/rollouts.jsonl", "{}\n" * 3),
    ],
)
def test_doubts_about_the_files(cluster, name, text):
    (Path(cluster.plan.job_dir) / name).write_text(text)
    assert finished(cluster, event()) is None


def test_a_login_node_that_is_away_is_for_the_long_way(cluster):
    def away(*_):
        raise SlurmUnreachableError("away")

    cluster.hook = SimpleNamespace(run=away, script_options={})
    assert finished(cluster, event()) is None


def test_results_that_lie_elsewhere_are_for_the_long_way(cluster):
    elsewhere = replace(cluster.plan, job_dir=str(Path(cluster.plan.run_dir) / "other"))
    (Path(elsewhere.job_dir)).mkdir()
    (Path(elsewhere.job_dir) / ".gym_job_chain").write_text("60\n")
    assert finished(Cluster(cluster.hook, elsewhere), event()) is None
    assert finished(cluster, event()) is not None
