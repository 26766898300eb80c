"""What to run: a submit config in YAML becomes a checked :class:`SubmitConfig`.

Names are loaded on first use (PEP 562), so importing one small module of this room, such as ``durations``, does not
pull in pydantic, OmegaConf or Hydra.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_gym_provider.config.compute import NodePool as NodePool
    from airflow_gym_provider.config.compute import SlurmComputeConfig as SlurmComputeConfig
    from airflow_gym_provider.config.defaults import ConfigDefaults as ConfigDefaults
    from airflow_gym_provider.config.driver import BenchmarkRunConfig as BenchmarkRunConfig
    from airflow_gym_provider.config.driver import DriverConfig as DriverConfig
    from airflow_gym_provider.config.driver import GymInstallConfig as GymInstallConfig
    from airflow_gym_provider.config.driver import ResumeConfig as ResumeConfig
    from airflow_gym_provider.config.durations import format_duration as format_duration
    from airflow_gym_provider.config.durations import parse_duration as parse_duration
    from airflow_gym_provider.config.env import EnvValue as EnvValue
    from airflow_gym_provider.config.errors import Problem as Problem
    from airflow_gym_provider.config.errors import SubmitConfigError as SubmitConfigError
    from airflow_gym_provider.config.errors import SubmitConfigWarning as SubmitConfigWarning
    from airflow_gym_provider.config.load import load_submit_config as load_submit_config
    from airflow_gym_provider.config.otel import OtelConfig as OtelConfig
    from airflow_gym_provider.config.placement import Placement as Placement
    from airflow_gym_provider.config.placement import ServicePlacement as ServicePlacement
    from airflow_gym_provider.config.placement import Shape as Shape
    from airflow_gym_provider.config.placement import place as place
    from airflow_gym_provider.config.rules.render_time import check_render_time as check_render_time
    from airflow_gym_provider.config.services import HealthCheckConfig as HealthCheckConfig
    from airflow_gym_provider.config.services import RayServiceConfig as RayServiceConfig
    from airflow_gym_provider.config.services import VllmPDServiceConfig as VllmPDServiceConfig
    from airflow_gym_provider.config.services import VllmPDTierConfig as VllmPDTierConfig
    from airflow_gym_provider.config.services import VllmServiceConfig as VllmServiceConfig
    from airflow_gym_provider.config.submit import JobConfig as JobConfig
    from airflow_gym_provider.config.submit import PolicyWiring as PolicyWiring
    from airflow_gym_provider.config.submit import SubmitConfig as SubmitConfig

_HOME = {
    "BenchmarkRunConfig": "driver",
    "ConfigDefaults": "defaults",
    "DriverConfig": "driver",
    "EnvValue": "env",
    "GymInstallConfig": "driver",
    "HealthCheckConfig": "services",
    "JobConfig": "submit",
    "NodePool": "compute",
    "OtelConfig": "otel",
    "Placement": "placement",
    "PolicyWiring": "submit",
    "Problem": "errors",
    "RayServiceConfig": "services",
    "ResumeConfig": "driver",
    "ServicePlacement": "placement",
    "Shape": "placement",
    "SlurmComputeConfig": "compute",
    "SubmitConfig": "submit",
    "SubmitConfigError": "errors",
    "SubmitConfigWarning": "errors",
    "VllmPDServiceConfig": "services",
    "VllmPDTierConfig": "services",
    "VllmServiceConfig": "services",
    "check_render_time": "rules.render_time",
    "format_duration": "durations",
    "load_submit_config": "load",
    "parse_duration": "durations",
    "place": "placement",
}

__all__ = [
    "BenchmarkRunConfig",
    "ConfigDefaults",
    "DriverConfig",
    "EnvValue",
    "GymInstallConfig",
    "HealthCheckConfig",
    "JobConfig",
    "NodePool",
    "OtelConfig",
    "Placement",
    "PolicyWiring",
    "Problem",
    "RayServiceConfig",
    "ResumeConfig",
    "ServicePlacement",
    "Shape",
    "SlurmComputeConfig",
    "SubmitConfig",
    "SubmitConfigError",
    "SubmitConfigWarning",
    "VllmPDServiceConfig",
    "VllmPDTierConfig",
    "VllmServiceConfig",
    "check_render_time",
    "format_duration",
    "load_submit_config",
    "parse_duration",
    "place",
]


def __getattr__(name: str) -> Any:
    """Import the module that defines ``name`` the first time it is asked for."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the lazy names too, for completion in a shell."""
    return sorted({*globals(), *_HOME})
