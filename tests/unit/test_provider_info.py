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


def test_its_connection_types_follow_airflows_schema_of_provider_yaml():
    """provider_info.schema.json says nothing of forms; a word that is not in this one is not shown."""
    schema = json.loads((Path(airflow.__path__[0]) / "provider.yaml.schema.json").read_text())
    jsonschema.validate(INFO["connection-types"], schema["properties"]["connection-types"])


def test_airflow_takes_the_form_as_it_is(caplog):
    from airflow.providers_manager import ProvidersManager
    from airflow.sdk.providers_manager_runtime import ProvidersManagerTaskRuntime

    manager, hook = ProvidersManager(), ProvidersManagerTaskRuntime().hooks["slurm"]
    assert (hook.hook_name, hook.connection_id_attribute_name) == ("Slurm", "ssh_conn_id")
    fields = INFO["connection-types"][0]["conn-fields"]
    widgets = manager.connection_form_widgets
    assert {widgets[f"extra__slurm__{name}"].field["schema"]["title"] for name in fields} == {
        field["label"] for field in fields.values()
    }
    secret = {name for name in fields if widgets[f"extra__slurm__{name}"].is_sensitive}
    assert secret == {"private_key_passphrase"}
    assert manager.field_behaviours["slurm"]["hidden_fields"] == ["schema"]
    assert not [record for record in caplog.records if "gym" in record.getMessage()]


def test_airflow_finds_the_rest():
    from airflow.providers_manager import ProvidersManager

    manager = ProvidersManager()
    assert set(INFO["extra-links"]) <= set(manager.extra_links_class_names)
    assert set(INFO["notifications"]) <= set(manager.notification)
    assert "airflow_gym_provider.cli" in {function.__module__ for function in manager.cli_command_functions}


@pytest.mark.parametrize("name", [*INFO["extra-links"], *INFO["notifications"], *INFO["cli"]])
def test_what_is_named_exists(name):
    module, _, attribute = name.rpartition(".")
    assert callable(getattr(importlib.import_module(module), attribute))


@pytest.mark.parametrize("name", MODULES)
def test_its_modules_exist(name):
    importlib.import_module(name)


def test_the_decorator_and_the_scheme_of_assets_are_what_airflow_finds():
    from airflow.sdk import Asset, task

    from airflow_gym_provider.decorators.gym import gym_eval_task

    assert task.gym_eval is gym_eval_task
    with pytest.raises(ValueError, match="gym://<cluster>/<benchmark>"):
        Asset("gym://no-benchmark")
