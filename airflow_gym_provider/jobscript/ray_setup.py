"""What a job with a Ray cluster needs beyond the steps that start it: one token, and a driver that stays out."""

from __future__ import annotations

from airflow_gym_provider.config import Shape, SubmitConfig
from airflow_gym_provider.jobscript.templating import render_template

_OF_VLLM = (Shape.RAY_BACKED, Shape.GATEWAY)


def render_ray_setup(config: SubmitConfig) -> str:
    """The section that gives all steps the same Ray token; empty for a job that starts no Ray cluster.

    Ray from 2.5x on turns token authentication on by itself and keeps the token in the home of the node that came
    first, where the other nodes' containers do not find it.
    """
    shapes = {where.shape for where in config.placement.services.values()}
    return render_template("ray_setup.sh.j2") if shapes & {*_OF_VLLM, Shape.RAY_CLUSTER} else ""


def ray_driver_exports(config: SubmitConfig) -> dict[str, str]:
    """Export statements, by variable, for the driver: Gym's own Ray must not join that of a vLLM on the same node.

    Ray joins a cluster that was started on its host unless it is told otherwise. A ``ray`` service is there to be
    joined, by its address.
    """
    placement = config.placement
    beside = any(
        where.shape in _OF_VLLM and placement.driver_node in where.nodes for where in placement.services.values()
    )
    return {"RAY_ADDRESS": "export RAY_ADDRESS=local"} if beside else {}
