"""The job's hosts: what the script must know of them, and the words by which it names them."""

from __future__ import annotations

from airflow_gym_provider.config import RayServiceConfig, Shape, SubmitConfig
from airflow_gym_provider.config.names import shell_name
from airflow_gym_provider.jobscript.policy import deferred_variables
from airflow_gym_provider.jobscript.templating import render_template


def host_word(node: int) -> str:
    """Host name of an allocation node as a bash word of the batch shell."""
    return f'"${{nodes[{node}]}}"'


def address_word(node: int) -> str:
    """Address of an allocation node, one that other nodes can reach, as a bash word of the batch shell."""
    return f'"${{addresses[{node}]}}"'


def render_node_setup(config: SubmitConfig) -> str:
    """The section that lists the hosts and exports what services, driver and `runtime:` values refer to.

    Empty for a job on one node whose services are not placed by pool and which starts no Ray cluster.
    """
    placement = config.placement
    ray = [name for name, service in config.deployed_services.items() if isinstance(service, RayServiceConfig)]
    head_ip = placement.total_nodes > 1 or "HEAD_NODE_IP" in _referenced(config)
    if not (head_ip or placement.by_pool or ray):
        return ""
    return render_template(
        "nodes.sh.j2",
        total=placement.total_nodes,
        head_ip=head_ip,
        ray_head=_ray_head(config) if placement.spans_nodes else None,
        pools={shell_name(name): nodes for name, nodes in placement.pools.items()} if placement.by_pool else {},
        ray={shell_name(name): _ray_address(config, name) for name in ray},
    )


def _referenced(config: SubmitConfig) -> set[str]:
    """Variables of the job that the config names: deferred in the policy's host, or as a `runtime:` value."""
    environments = [config.driver.env, *(service.env for service in config.deployed_services.values())]
    runtime = {value.value for env in environments for value in env.values() if value.kind == "runtime"}
    return runtime | deferred_variables(config.driver.policy_host)


def _ray_head(config: SubmitConfig) -> int:
    """The head of the first service that brings a Ray cluster of its own; the job's first node if none does."""
    with_ray = (
        where for where in config.placement.services.values() if where.shape in (Shape.RAY_BACKED, Shape.GATEWAY)
    )
    return next((where.first_node for where in with_ray if len(where.nodes) > 1), config.placement.head_node)


def _ray_address(config: SubmitConfig, name: str) -> str:
    service = config.deployed_services[name]
    port = service.port if isinstance(service, RayServiceConfig) else None
    return f'"${{nodes[{config.placement.services[name].first_node}]}}:{port}"'
