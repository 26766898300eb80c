"""The form for starting by hand: what it refuses, and that what is left empty changes nothing."""

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from airflow.sdk import DAG
from airflow.sdk.definitions.param import ParamsDict
from airflow.sdk.exceptions import ParamValidationError
from fakes.task_context import context, submit_config

from airflow_gym_provider.config import load_submit_config
from airflow_gym_provider.operators._arguments import given_overrides
from airflow_gym_provider.operators.gym import GymEvalOperator
from airflow_gym_provider.params import benchmarks_from_params, gym_params, overrides_from_params
from airflow_gym_provider.task_groups._choose import read_patterns
from airflow_gym_provider.task_groups._validate import GymValidateOperator

__all__ = ["context", "submit_config"]  # fixtures
NAMES = ["gpqa", "aime25"]
PATH = "/ckpt/step 7, {a=b} ${oc.env:HOME} {{ ds }}"


def rendered(context, conf, events=()):
    """(overrides, benchmarks) of a task in a run with these params and asset events."""
    with DAG("d", schedule=None, params=gym_params(benchmarks=NAMES)) as dag:
        task = GymEvalOperator(task_id="e", config="x", overrides=overrides_from_params())
        first = GymValidateOperator(task_id="v", config="x", benchmarks=benchmarks_from_params())
    params = dict(ParamsDict({name: dag.params.get_param(name) for name in dag.params}).validate() | conf)
    context |= {"params": params, "triggering_asset_events": {"checkpoint": list(events)}}
    task.render_template_fields(context)
    first.render_template_fields(context)
    return given_overrides(task.overrides), read_patterns(first.benchmarks)


def event(second, **extra):
    return SimpleNamespace(timestamp=datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC), extra=extra)


def test_an_empty_form_changes_nothing(context, submit_config):
    overrides, benchmarks = rendered(context, {})
    assert benchmarks == []
    assert load_submit_config(submit_config, overrides).resolved() == load_submit_config(submit_config).resolved()


def test_what_is_filled_in_reaches_its_place(context, submit_config):
    conf = {"model": "org/other", "walltime": "4:00:00", "limit": 5, "benchmarks": ["gpqa"]}
    overrides, benchmarks = rendered(context, conf)
    config = load_submit_config(submit_config, overrides)
    assert (config.services["policy"].model, config.services["policy"].served_model_name) == ("org/other", None)
    assert (config.cluster.walltime_seconds, config.driver.benchmarks["gpqa"].run["limit"]) == (4 * 3600, 5)
    assert benchmarks == ["gpqa"]


@pytest.mark.parametrize(
    ("conf", "events", "served"),
    [
        ({"checkpoint": PATH}, [], (PATH, None)),
        ({"checkpoint": PATH, "model": "org/name"}, [], (PATH, "org/name")),
        ({}, [event(9, checkpoint=PATH), event(3, checkpoint="/old")], (PATH, None)),
        ({"checkpoint": "/mine"}, [event(9, checkpoint=PATH)], ("/mine", None)),
        ({"model": "org/name"}, [event(9, other=1)], ("org/name", None)),
    ],
)
def test_a_checkpoint_comes_from_the_form_or_from_the_newest_event(context, submit_config, conf, events, served):
    overrides, _ = rendered(context, conf, events)
    policy = load_submit_config(submit_config, overrides).services["policy"]
    assert (policy.model, policy.served_model_name) == served


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("limit", 0),
        ("limit", -1),
        ("limit", "5"),
        ("limit", 1.5),
        ("walltime", "four hours"),
        ("walltime", "90"),
        ("walltime", "4:00"),
        ("walltime", "4:60:00"),
        ("benchmarks", ["gqpa"]),
        ("benchmarks", "gpqa"),
        ("benchmarks", ["gpqa", "gpqa"]),
        ("checkpoint", "relative/path"),
        ("model", "two\nlines"),
        ("model", 7),
    ],
)
def test_a_bad_value_is_refused(name, value):
    with pytest.raises(ParamValidationError):
        gym_params(benchmarks=NAMES)[name].resolve(value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("limit", 1),
        ("walltime", "4:00:00"),
        ("walltime", "1-12"),
        ("walltime", "2-00:00:00"),
        ("walltime", ""),
        ("benchmarks", ["aime25", "gpqa"]),
        ("benchmarks", []),
        ("checkpoint", "s3://bucket/step 7"),
        ("checkpoint", ""),
        ("model", "org/model"),
    ],
)
def test_a_good_value_and_none_are_taken(name, value):
    param = gym_params(benchmarks=NAMES)[name]
    assert param.resolve(value) == value
    assert param.resolve(None) is None


def test_without_names_patterns_are_taken():
    param = gym_params()["benchmarks"]
    assert param.resolve(["mmlu*", "!slow_[ab]?"]) == ["mmlu*", "!slow_[ab]?"]
    with pytest.raises(ParamValidationError):
        param.resolve(["a b"])


def test_values_filled_in_beforehand_must_be_good_as_well():
    assert gym_params(limit=3)["limit"].resolve() == 3
    with pytest.raises(ParamValidationError):
        gym_params(walltime="90")["walltime"].resolve()
