"""The services of a job: the steps that start them, one module per type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from airflow_gym_provider.config import RayServiceConfig, SubmitConfig, VllmPDServiceConfig, VllmServiceConfig
from airflow_gym_provider.config.errors import gathering
from airflow_gym_provider.config.services import BaseServiceConfig
from airflow_gym_provider.jobscript.environment import export_lines
from airflow_gym_provider.jobscript.services.ray import ray_steps
from airflow_gym_provider.jobscript.services.router import router_steps
from airflow_gym_provider.jobscript.services.step import extra_words
from airflow_gym_provider.jobscript.services.vllm import vllm_steps
from airflow_gym_provider.jobscript.steps import Step, mounts_option

STEPS: Mapping[type[BaseServiceConfig], Callable[[SubmitConfig, str, Any], list[Step]]] = {
    VllmServiceConfig: vllm_steps,  # the tiers of a vllm_pd are such services too
    VllmPDServiceConfig: router_steps,
    RayServiceConfig: ray_steps,
}
"""Which type of service makes which steps: given the config, the service's name and the service."""


def service_steps(config: SubmitConfig, name: str) -> list[Step]:
    """The steps of one deployed service, in the order to start them; the first one's log is the service's.

    Raises SubmitConfigError for values that no program can be given, all at once.
    """
    service = config.deployed_services[name]
    make = next(make for model, make in STEPS.items() if isinstance(service, model))
    with gathering() as part:
        # Each by itself, since the first of them would end the making of a step.
        with part():
            export_lines(service.env, f"{config.place_of(name)}.env")
        with part():
            mounts_option(service.mounts, name)
        with part():
            extra_words(config, name, getattr(service, "extra_args", ""))
        with part():
            steps = make(config, name, service)
    return steps
