"""No way of writing a DAG puts the values of `environ` into what Airflow stores of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from airflow.sdk import DAG, TaskGroup, task
from airflow.serialization.serialized_objects import DagSerialization

from airflow_gym_provider.decorators.gym import gym_eval_task
from airflow_gym_provider.operators.gym import GymEvalOperator, GymSubmitOperator
from airflow_gym_provider.operators.retry import ENDLESS, ChainRetryPolicy
from airflow_gym_provider.task_groups import gym_evals

VALUES = {"HF_TOKEN": "CANARY"}
TEMPLATES = {"HF_TOKEN": "{{ conn.hf.password }}"}


def decorated(**kwargs: Any) -> Any:
    @gym_eval_task(config="submit.yaml", **kwargs)
    def evaluate(x: int = 1) -> list[str]:
        return []

    return evaluate


def mapped(**kwargs: Any) -> Any:
    return GymEvalOperator.partial(task_id="eval", config="submit.yaml", **kwargs)


def grouped(make: Callable[[], object], **default_args: Any) -> None:
    with TaskGroup("around", default_args=default_args):
        make()


@task
def names() -> list[dict[str, str]]:
    return []


REFUSED: dict[str, Callable[[dict[str, str]], object]] = {
    "partial": lambda given: mapped(environ=given).expand(benchmark=["a"]),
    "expand": lambda given: mapped().expand(environ=[given]),
    "expand_kwargs": lambda given: mapped().expand_kwargs([{"benchmark": "a", "environ": given}]),
    "group": lambda given: gym_evals("submit.yaml", environ=given),
    "decorator": lambda given: decorated(environ=given)(),
    "override": lambda given: decorated().override(environ=given)(),
    "override, mapped": lambda given: decorated().override(environ=given).expand(x=[1]),
    "override twice": lambda given: decorated().override(pool="p").override(environ=given).expand_kwargs([{"x": 1}]),
}
NOT_STORED: dict[str, Callable[[dict[str, str]], object]] = {
    "operator": lambda given: GymEvalOperator(task_id="eval", config="submit.yaml", environ=given),
    "submit": lambda given: GymSubmitOperator(task_id="queue", config="submit.yaml", environ=given),
    "default_args": lambda given: mapped(default_args={"environ": given}).expand(benchmark=["a"]),
    "default_args of gym_evals": lambda given: gym_evals("submit.yaml", default_args={"environ": given}),
    "default_args of a group": lambda given: grouped(lambda: gym_evals("submit.yaml"), environ=given),
    "default_args of a decorator": lambda given: decorated(default_args={"environ": given}).expand(x=[1]),
}
IN_A_DAG: dict[str, Callable[[], object]] = {
    "operator": lambda: GymEvalOperator(task_id="eval", config="submit.yaml"),
    "submit": lambda: GymSubmitOperator(task_id="queue", config="submit.yaml"),
    "mapped": lambda: mapped().expand(benchmark=["a"]),
    "group": lambda: gym_evals("submit.yaml"),
    "decorator": lambda: decorated()(),
    "decorator, mapped": lambda: decorated().expand(x=[1]),
    "decorator, mapped over kwargs": lambda: decorated().expand_kwargs([{"x": 1}]),
}


@pytest.mark.parametrize("way", REFUSED)
def test_values_are_refused_where_airflow_would_store_them(way: str):
    with DAG("d", schedule=None), pytest.raises(ValueError, match=r"environ: Airflow stores .*HF_TOKEN"):
        REFUSED[way](VALUES)
    with DAG("d", schedule=None):
        REFUSED[way](TEMPLATES)


@pytest.mark.parametrize("way", NOT_STORED)
def test_elsewhere_they_are_not_stored(way: str):
    with DAG("d", schedule=None) as dag:
        NOT_STORED[way](VALUES)
    assert "CANARY" not in json.dumps(DagSerialization.to_dict(dag), default=str)


@pytest.mark.parametrize("way", IN_A_DAG)
def test_a_dags_default_args_are_stored(way: str):
    with (
        DAG("d", schedule=None, default_args={"environ": VALUES}),
        pytest.raises(ValueError, match=r"stores a DAG's default_args.*HF_TOKEN"),
    ):
        IN_A_DAG[way]()
    with DAG("d", schedule=None, default_args={"environ": TEMPLATES}):
        IN_A_DAG[way]()


def test_what_a_task_returns_is_stored_as_well():
    with DAG("d", schedule=None), pytest.raises(ValueError, match="cannot be mapped over"):
        mapped().expand(environ=names())


def test_an_override_leaves_a_chains_retries_and_its_asset_alone():
    """Of a mapped task Airflow asks the decorator for them, not the operator."""
    with DAG("d", schedule=None) as dag:
        decorated().override(retries=0, outlets=[], task_id="e").override(pool="p").expand(x=[1])
    found = dag.get_task("e")
    assert (found.retries, type(found.retry_policy), found.pool) == (ENDLESS, ChainRetryPolicy, "p")
    assert [outlet.name for outlet in found.outlets] == ["gym_results"]
