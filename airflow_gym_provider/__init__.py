"""Run LLM evaluations on Slurm from Apache Airflow."""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"

_INTEGRATION = "Gym evaluations on Slurm"


def get_provider_info() -> dict[str, Any]:
    """What Airflow discovers of this package, after `provider_info.schema.json`. Imports nothing but plain data."""
    from airflow_gym_provider.hooks.form import connection_type

    return {
        "package-name": "airflow-gym-provider",
        "name": "Gym on Slurm",
        "description": "LLM evaluations on Slurm, from a gym submit config to metrics.",
        "integrations": [{"integration-name": _INTEGRATION, "tags": ["service"]}],
        "hooks": [_modules("airflow_gym_provider.hooks.slurm")],
        "connection-types": [connection_type()],
        "operators": [
            _modules(*(f"airflow_gym_provider.operators.{name}" for name in ("gym", "gate", "report"))),
        ],
        "sensors": [_modules("airflow_gym_provider.sensors.slurm")],
        "triggers": [_modules("airflow_gym_provider.triggers.slurm")],
        "notifications": ["airflow_gym_provider.notifications.gym.GymNotifier"],
        "cli": ["airflow_gym_provider.cli.get_gym_commands"],
        "extra-links": [
            f"airflow_gym_provider.links.gym.{name}"
            for name in ("RunDirectoryLink", "DriverLogLink", "JobRecordLink", "ResultsPageLink")
        ],
        "task-decorators": [{"name": "gym_eval", "class-name": "airflow_gym_provider.decorators.gym.gym_eval_task"}],
        "asset-uris": [{"schemes": ["gym"], "handler": "airflow_gym_provider.assets.sanitize_uri"}],
    }


def _modules(*names: str) -> dict[str, Any]:
    return {"integration-name": _INTEGRATION, "python-modules": list(names)}
