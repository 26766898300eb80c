"""The operators as Airflow sees them: what is deferred, stored and shown, and how long a kill may take."""

import time
from datetime import timedelta
from types import SimpleNamespace
from typing import ClassVar

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import TaskDeferred
from omegaconf import OmegaConf

from airflow_gym_provider.config import load_submit_config
from airflow_gym_provider.operators import _chain as chain_module
from airflow_gym_provider.operators import _cluster as cluster_module
from airflow_gym_provider.operators._chain import Waiting
from airflow_gym_provider.operators.gym import GymEvalOperator, GymSubmitOperator

PLAN = SimpleNamespace(
    hostname=None,
    job_dir="/out/run/gpqa",
    job_name="gym-gpqa-1",
    benchmark="gpqa",
    spec=SimpleNamespace(rollouts_path="/out/run/gpqa/artifacts/rollouts.jsonl", judged_by="rollouts"),
    as_dict=lambda: {"benchmark": "gpqa"},
)


class Chain:
    """Stands for ChainTask: waits for job 7, then is done."""

    made: ClassVar[list] = []

    def __init__(self, arguments, context, log):
        self.arguments, self.context, self.log = arguments, context, log
        self.plan, self.deadline = PLAN, 99.0
        self.closed, self.killed = False, False
        Chain.made.append(self)

    def here(self):
        return PLAN, SimpleNamespace(hook=SimpleNamespace(poll_floor=1.0, needed_hostname=None))

    def start(self):
        return Waiting("7")

    def resume(self, plan, event):
        assert plan == {"benchmark": "gpqa"}
        return {"event": event["reason"]}

    def go_on(self, event):
        return {"event": event["reason"]}

    def close(self):
        self.closed = True

    def kill(self):
        self.killed = True


@pytest.fixture(autouse=True)
def chain(monkeypatch):
    Chain.made.clear()
    monkeypatch.setattr(chain_module, "ChainTask", Chain)


def test_it_defers_without_a_timeout_and_carries_its_deadline(context):
    with pytest.raises(TaskDeferred) as deferred:
        GymEvalOperator(task_id="eval", config="x.yaml").execute(context)
    assert deferred.value.timeout is None
    assert deferred.value.method_name == "execute_complete"
    assert deferred.value.kwargs == {"plan": {"benchmark": "gpqa"}}
    arguments = deferred.value.trigger.serialize()[1]
    assert (arguments["job_ids"], arguments["deadline"], arguments["job_dir"]) == (["7"], 99.0, "/out/run/gpqa")
    assert Chain.made[0].closed


def test_after_the_event_it_returns_what_the_cluster_says(context):
    task = GymEvalOperator(task_id="eval", config="x.yaml")
    assert task.execute_complete(context, {"reason": "ended"}, plan={"benchmark": "gpqa"}) == {"event": "ended"}


def test_in_the_worker_it_waits_by_itself(context, monkeypatch):
    monkeypatch.setattr("airflow_gym_provider.operators._waiting.wait_here", lambda *_: {"reason": "ended"})
    assert GymEvalOperator(task_id="eval", config="x.yaml", deferrable=False).execute(context) == {"event": "ended"}


def test_a_kill_reaches_the_chain_and_is_harmless_before_there_is_one(context):
    task = GymEvalOperator(task_id="eval", config="x.yaml")
    task.on_kill()
    with pytest.raises(TaskDeferred):
        task.execute(context)
    task.on_kill()
    assert Chain.made[0].killed


@pytest.mark.parametrize("operator", [GymEvalOperator, GymSubmitOperator])
def test_secrets_are_no_template_fields_but_are_rendered(operator, context):
    task = operator(task_id="eval", config="x.yaml", environ={"KEY": "CANARY-{{ ti.run_id }}"})
    assert "environ" not in operator.template_fields
    assert task._rendered_environ(context) == {"KEY": "CANARY-r1"}
    assert "CANARY" not in repr(task)


def test_the_path_of_a_config_is_a_template_and_its_file_is_not_read_by_airflow(context, tmp_path):
    (tmp_path / "r1.yaml").write_text("job: {{ nothing }}")
    with DAG("d", schedule=None):
        task = GymEvalOperator(task_id="eval", config=str(tmp_path / "{{ ti.run_id }}.yaml"))
    task.resolve_template_files()
    task.render_template_fields(context)
    assert task.config == str(tmp_path / "r1.yaml")


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize(("a", "b"), [("", "${oc.env:CANARY}"), ("$", "{oc.env:CANARY}"), ("\\", "\\${oc.env:CANARY}")])
def test_what_a_template_brings_into_config_or_overrides_reads_no_environment(context, submit_config, native, a, b):
    context |= {"params": {"a": a, "b": b}, "expanded_ti_count": None}
    text = "{{ params.a }}{{ params.b }}"
    submit_config["driver"]["benchmarks"]["gpqa"]["run"] |= {"given": text, "own": "${oc.env:OWN}", "many": [text]}
    with DAG("d", schedule=None, render_template_as_native_obj=native) as dag:
        overrides = ["@run.role=" + text, "+driver.benchmarks.gpqa.run.place=" + text]
        task = GymEvalOperator(task_id="eval", config=submit_config, overrides=overrides)
    context |= {"dag": dag}
    task.render_template_fields(context)
    environ = {"CANARY": "s3cret", "OWN": "own"}
    config = load_submit_config(task.given("config"), task.given("overrides"), environ)
    # read once more by gym's own Hydra, in the job
    run = OmegaConf.to_container(OmegaConf.create(config.driver.benchmarks["gpqa"].run), resolve=True)
    assert run == {"split": "benchmark", "given": a + b, "own": "own", "many": [a + b], "role": a + b, "place": a + b}
    assert config.secret_values() == {"own"}
    assert task.overrides == ["@run.role=" + a + b, "+driver.benchmarks.gpqa.run.place=" + a + b]
    assert task.config["driver"]["benchmarks"]["gpqa"]["run"]["given"] == a + b


def test_options_reach_the_chain(context):
    task = GymEvalOperator(
        task_id="eval",
        config="x.yaml",
        benchmark="b",
        overrides=["a=1"],
        poll_interval=5,
        results_timeout=6,
        lost_timeout=7,
        run_group="g",
        execution_timeout=timedelta(seconds=8),
        retry_delay=timedelta(seconds=9),
    )
    with pytest.raises(TaskDeferred):
        task.execute(context)
    given = Chain.made[0].arguments
    assert (given.benchmark, given.overrides, given.poll_interval, given.results_timeout) == ("b", ["a=1"], 5, 6)
    assert (given.lost_after, given.run_group, given.execution_timeout, given.retry_delay) == (7, "g", 8, 9)


def test_a_kill_is_over_before_airflow_kills(monkeypatch):
    monkeypatch.setattr(cluster_module, "KILL_SECONDS", 0.3)

    class Slow:
        def cancel(self, *_, **__):
            time.sleep(30)

    begin = time.monotonic()
    assert "no answer" in cluster_module.kill(Slow(), "why", ["7"])
    assert time.monotonic() - begin < 2


def test_a_kill_never_raises():
    class Broken:
        def cancel(self, *_, **__):
            raise RuntimeError("away")

    assert "away" in cluster_module.kill(Broken(), "why", ["7"])


@pytest.mark.parametrize("value", [-5, float("nan"), float("inf"), None, "soon", True, [30]])
@pytest.mark.parametrize("name", ["poll_interval", "results_timeout", "lost_timeout"])
@pytest.mark.parametrize("make", [GymEvalOperator, GymEvalOperator.partial])
def test_what_is_no_time_is_an_error_of_the_dag_file(make, name, value):
    """Not of a job that is queued already."""
    with pytest.raises(ValueError, match=rf"{name} is .*; write .* seconds, such as 30, or a timedelta"):
        make(task_id="eval", config="submit.yaml", **{name: value})


def test_times_may_be_timedeltas_as_airflows_own():
    times = {
        "poll_interval": timedelta(minutes=1),
        "results_timeout": timedelta(0),
        "lost_timeout": timedelta(minutes=5),
    }
    task = GymEvalOperator(task_id="eval", config="submit.yaml", **times)
    assert (task.poll_interval, task.results_timeout, task.lost_timeout) == (60.0, 0.0, 300.0)
    with DAG("d"):
        mapped = GymEvalOperator.partial(task_id="eval", config="submit.yaml", **times).expand(benchmark=["a"])
    assert mapped.partial_kwargs["poll_interval"] == 60.0
