"""The services of a job: the steps that start them, one module per type."""

from __future__ import annotations

from airflow_gym_provider.config import (
    Problem,
    RayServiceConfig,
    SubmitConfig,
    SubmitConfigError,
    VllmPDServiceConfig,
    VllmServiceConfig,
)
from airflow_gym_provider.jobscript.services.ray import ray_steps
from airflow_gym_provider.jobscript.services.router import router_step
from airflow_gym_provider.jobscript.services.vllm import VllmDeployment
from airflow_gym_provider.jobscript.steps import Step


def service_steps(config: SubmitConfig, name: str) -> list[Step]:
    """The steps of one deployed service, in the order to start them; the first one's log is the service's.

    Raises SubmitConfigError for values that no program can be given.
    """
    service, where = config.deployed_services[name], config.placement.services[name]
    if isinstance(service, RayServiceConfig):
        return ray_steps(config, name, service)
    if isinstance(service, VllmPDServiceConfig):
        return [router_step(config, name, service)]
    if isinstance(service, VllmServiceConfig):
        gpus = next((pool.gpus_per_node for pool in config.cluster.node_pools.values()), None)
        one_node = config.placement.total_nodes == 1
        return VllmDeployment(name, service, where, _place(config, name), gpus, one_node).steps()
    told = f"services of type {type(service).__name__} cannot be rendered"
    raise SubmitConfigError([Problem(f"services.{name}", told)])


def _place(config: SubmitConfig, name: str) -> str:
    """Where a deployed service stands in the config: a tier stands inside its ``vllm_pd`` entry."""
    if name in config.services:
        return f"services.{name}"
    owner, _, tier = name.rpartition("-")
    return f"services.{owner}.{tier}"
