"""Results as assets, reasons of failures, and what a mapped task is given."""

from types import SimpleNamespace

import pytest
from airflow.sdk import DAG, Asset, AssetAlias
from airflow.sdk.exceptions import AirflowTaskTimeout
from airflow.sdk.execution_time.context import OutletEventAccessors

from airflow_gym_provider import xcom_keys
from airflow_gym_provider.assets import RESULTS, gym_asset
from airflow_gym_provider.exceptions import ChainStopped
from airflow_gym_provider.operators._failure import reason_left
from airflow_gym_provider.operators._outlets import publish
from airflow_gym_provider.operators.gym import GymEvalOperator

RESULT = {
    "benchmark": "gpqa",
    "rollouts_done": 20,
    "rollouts_expected": 20,
    "complete": True,
    "record": "/out/run/gym-job.json",
    "run_dir": "/out/run",
    "job_dir": "/out/run/gpqa",
    "job_id": "7",
    "summary": {"rollouts": 4, "tasks": 2},
    "metrics": {f"z{number}": 0.0 for number in range(50)} | {"mean/reward": 0.5},
    "logs": "/out/run/gpqa/logs",
}


def published(outlets):
    events = OutletEventAccessors()
    plan = SimpleNamespace(bounds=SimpleNamespace(compute="eos"))
    publish(SimpleNamespace(context={"outlet_events": events}, here=lambda: (plan, None)), outlets, RESULT)
    return events


def test_a_result_is_an_event_of_its_asset_through_the_alias():
    events = published([AssetAlias(RESULTS)])
    (event,) = events[AssetAlias(RESULTS)].asset_alias_events
    assert (event.dest_asset_key.name, event.dest_asset_key.uri) == ("gym://eos/gpqa", "gym://eos/gpqa")
    assert event.extra["cluster"] == "eos"
    assert event.extra["rollouts_done"] == 20
    assert event.extra["metrics"]["mean/reward"] == 0.5
    assert len(event.extra["metrics"]) == 20
    assert "logs" not in event.extra


def test_an_asset_that_is_an_outlet_by_itself_gets_the_event_and_the_alias_none():
    asset = Asset("gym://eos/gpqa")
    events = published([Asset("other"), asset, AssetAlias(RESULTS)])
    assert events[asset].extra["run_dir"] == "/out/run"
    assert events[AssetAlias(RESULTS)].asset_alias_events == []


def test_every_task_has_the_alias_and_a_known_benchmark_its_asset(submit_config):
    mine = Asset("mine")
    with DAG("d", schedule=None):
        known = GymEvalOperator(task_id="known", config=submit_config, outlets=[mine])
        unknown = GymEvalOperator(task_id="unknown", config="submit.yaml", benchmark="gpqa", outlets=mine)
        templated = GymEvalOperator(task_id="templated", config=submit_config, benchmark="{{ params.x }}")
        mapped = GymEvalOperator.partial(task_id="mapped", config=submit_config).expand(benchmark=["gpqa"])
    alias = AssetAlias(RESULTS)
    assert known.outlets == [mine, alias, gym_asset("c", "gpqa")]
    assert unknown.outlets == [mine, alias]
    assert templated.outlets == [alias]
    assert mapped.partial_kwargs["outlets"] == [alias]
    assert mapped.unmap({"benchmark": "gpqa"}).outlets == [alias], "Airflow has not seen any other"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ChainStopped("gpqa: FAILED 1:0; chain stopped"), "gpqa: FAILED 1:0; chain stopped"),
        (ValueError("CANARY"), "unexpected ValueError, see the log"),
        (AirflowTaskTimeout("x"), "execution_timeout is over"),
    ],
)
def test_a_failure_leaves_its_reason(context, error, reason):
    with pytest.raises(type(error)), reason_left(context):
        raise error
    assert context["ti"].xcoms == {xcom_keys.FAILURE: {"reason": reason}}


def test_a_reason_that_cannot_be_left_does_not_hide_the_failure():
    with pytest.raises(ChainStopped, match="why"), reason_left({"ti": None}):
        raise ChainStopped("why")


def test_a_mapped_task_takes_templates_and_no_values_for_secrets():
    template = {"TOKEN": "{{ conn.hf.password }}"}
    with DAG("d", schedule=None):
        GymEvalOperator.partial(task_id="mapped", config="x.yaml", environ=template).expand(benchmark=["gpqa"])
        with pytest.raises(ValueError, match="TOKEN") as caught:
            GymEvalOperator.partial(task_id="stored", config="x.yaml", environ={"TOKEN": "CANARY"})
    assert "CANARY" not in str(caught.value)


def test_overrides_that_came_to_nothing_are_none():
    task = GymEvalOperator(task_id="eval", config="x.yaml", overrides=["", " ", "a=1"])
    task._rendered_environ = lambda context: {}
    assert task._arguments({}).overrides == ["a=1"]
