"""`@task.gym_eval`: what the function returns becomes the config, once for all tries of a chain."""

from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest
from airflow.sdk import DAG, AssetAlias, task
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from airflow_gym_provider.assets import RESULTS
from airflow_gym_provider.decorators.gym import gym_eval_task
from airflow_gym_provider.operators import _chain as chain_module
from airflow_gym_provider.operators._chain import Waiting
from airflow_gym_provider.operators.retry import ENDLESS, ChainRetryPolicy


class Chain:
    """Stands for ChainTask: waits for job 7, and is done when it is asked again."""

    arguments: ClassVar[list] = []

    def __init__(self, arguments, context, log):
        self.context, self.log, self.plan = context, log, SimpleNamespace(as_dict=dict)
        Chain.arguments.append(arguments)

    def start(self):
        return Waiting("7")

    def resume(self, plan, event):
        return {"done": True}

    def close(self):
        pass


@pytest.fixture(autouse=True)
def chain(monkeypatch):
    Chain.arguments.clear()
    monkeypatch.setattr(chain_module, "ChainTask", Chain)
    monkeypatch.setattr("airflow_gym_provider.operators._waiting.make_trigger", lambda *_: None)


def operator_of(function, *args, **decorator):
    with DAG("d", schedule=None):
        return task.gym_eval(**({"task_id": "eval"} | decorator))(function)(*args).operator


def submitted(operator, context):
    """(config, overrides) that the chain was made with."""
    with pytest.raises(TaskDeferred):
        operator.execute(context)
    return Chain.arguments[-1].config, Chain.arguments[-1].overrides


@pytest.mark.parametrize("answer", [Path("/a.yaml"), "/a.yaml"])
def test_a_path_is_the_config(context, answer):
    assert submitted(operator_of(lambda: answer), context) == ("/a.yaml", [])


def test_a_mapping_is_the_config_and_arguments_and_context_reach_the_function(context):
    def say(output, ds, ti):
        return {"job": {"output_path": Path(output) / ds / ti.task_id}}

    assert submitted(operator_of(say, "/out"), context)[0] == {"job": {"output_path": "/out/2026-01-02/eval"}}


def test_beside_a_config_a_list_is_overrides_and_the_rest_is_merged_over_it(context, tmp_path):
    given = {"config": "base.yaml", "overrides": ["a=1", ""]}
    assert submitted(operator_of(lambda: ["b=2"], **given), context) == ("base.yaml", ["a=1", "b=2"])
    context["task_state_store"].clear()
    assert submitted(operator_of(lambda: {"x": 1}, **given), context) == (["base.yaml", {"x": 1}], ["a=1"])
    context["task_state_store"].clear()
    assert submitted(operator_of(lambda: None, **given), context) == ("base.yaml", ["a=1"])


def test_the_function_is_called_once_for_all_tries_and_anew_after_a_clear(context):
    calls = []

    def say():
        calls.append(1)
        return [f"n={len(calls)}"]

    def fresh():
        return operator_of(say, config="base.yaml")  # another process for each try, and after the deferral

    assert submitted(fresh(), context)[1] == ["n=1"]
    assert fresh().execute_complete(context, {}, {}) == {"done": True}
    assert Chain.arguments[-1].overrides == ["n=1"]
    context["ti"].try_number += 1
    assert submitted(fresh(), context)[1] == ["n=1"]
    context["ti"].max_tries += 1
    assert submitted(fresh(), context)[1] == ["n=2"]


@pytest.mark.parametrize(("answer", "words"), [(7, "returned a int"), ({"a": object()}, "no plain data")])
def test_what_is_no_config_is_refused_in_words(context, answer, words):
    def say():
        return answer

    with pytest.raises(AirflowFailException, match=f"say returned.*{words.split()[-1]}"):
        operator_of(say).execute(context)
    assert words in context["ti"].xcoms["gym_failure"]["reason"]


def test_a_mapped_one_has_the_chains_retries_and_the_outlet(context):
    with DAG("d", schedule=None, default_args={"retries": 1}):

        @task.gym_eval(config="base.yaml", map_index_template="{{ task.op_kwargs['checkpoint'] }}", retries=2)
        def evaluate(checkpoint, scale):
            return [f"@policy.model={checkpoint}", f"scale={scale}"]

        mapped = evaluate.override(task_id="other").partial(scale=3).expand(checkpoint=["/7", "/8"]).operator
    assert (mapped.task_id, mapped.retries) == ("other", ENDLESS)
    assert isinstance(mapped.partial_kwargs["retry_policy"], ChainRetryPolicy)
    assert mapped.partial_kwargs["outlets"] == [AssetAlias(RESULTS)]
    operator = mapped.unmap({"op_kwargs": {"checkpoint": "/8"}})
    assert submitted(operator, context)[1] == ["@policy.model=/8", "scale=3"]


def test_an_annotation_does_not_take_the_result_apart():
    def say() -> dict[str, str]:
        return {}

    operator = operator_of(say)
    assert operator.multiple_outputs is False
    assert operator.retries == ENDLESS
    assert operator.custom_operator_name == "@task.gym_eval"


def test_values_of_environ_are_not_taken():
    with pytest.raises(ValueError, match="TOKEN"):
        gym_eval_task(environ={"TOKEN": "CANARY"})
