"""Airflow accepts what we say of ourselves, and everything named there exists."""

import importlib
import json
from pathlib import Path

import airflow
import jsonschema
import pytest

from airflow_gym_provider import get_provider_info

INFO = get_provider_info()
MODULES = [name for kind in ("hooks", "operators", "sensors", "triggers") for name in INFO[kind][0]["python-modules"]]


def test_it_follows_airflows_schema():
    schema = json.loads((Path(airflow.__path__[0]) / "provider_info.schema.json").read_text())
    jsonschema.validate(INFO, schema)


@pytest.mark.parametrize("name", MODULES)
def test_its_modules_exist(name):
    importlib.import_module(name)


def test_the_decorator_and_the_scheme_of_assets_are_what_airflow_finds():
    from airflow.sdk import Asset, task

    from airflow_gym_provider.decorators.gym import gym_eval_task

    assert task.gym_eval is gym_eval_task
    with pytest.raises(ValueError, match="gym://<cluster>/<benchmark>"):
        Asset("gym://no-benchmark")
