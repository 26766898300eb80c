"""The services of a job: the steps that start them, one module per type."""

from __future__ import annotations

from airflow_gym_provider.config import Problem, Shape, SubmitConfig, SubmitConfigError, VllmServiceConfig
from airflow_gym_provider.jobscript.services.vllm import single_node_step
from airflow_gym_provider.jobscript.steps import Step


def service_steps(config: SubmitConfig, name: str) -> list[Step]:
    """The steps of one deployed service, in the order to start them; the first one's log is the service's.

    Raises SubmitConfigError for a deployment that has no steps yet.
    """
    service, where = config.deployed_services[name], config.placement.services[name]
    several_nodes = config.placement.total_nodes > 1
    if isinstance(service, VllmServiceConfig) and where.shape is Shape.SINGLE:
        node = where.first_node if several_nodes else None
        return [single_node_step(name, service, place=f"services.{name}", node=node)]
    raise SubmitConfigError([Problem(f"services.{name}", f"the deployment {where.shape.value} is not rendered yet")])
