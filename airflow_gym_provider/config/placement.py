"""Where everything runs: one pure calculation that rendering, health checks and the GPU arithmetic share.

Nodes are numbered from 0 in the order of the allocation. Pools own contiguous ranges in order of declaration.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from airflow_gym_provider.config.compute import NodePool, SlurmComputeConfig
from airflow_gym_provider.config.services import (
    BaseServiceConfig,
    RayServiceConfig,
    VllmPDServiceConfig,
    VllmPDTierConfig,
    VllmServiceConfig,
)

DEFAULT_RAY_PORT = 6379


class Shape(StrEnum):
    """How a service is deployed on its nodes."""

    SINGLE = "single"
    """One server on one node; several instances of vLLM are its ``--data-parallel-size``."""
    RAY_BACKED = "ray_backed"
    """One vLLM instance across all its nodes, over a Ray cluster of its own."""
    DATA_PARALLEL = "data_parallel"
    """One ``vllm serve`` per node; the first serves the API, the others are headless."""
    GATEWAY = "gateway"
    """The Ray Serve gateway spreads instances over the nodes and routes to them."""
    PER_NODE = "per_node"
    """An independent server on every node (a tier with ``server_per_node``)."""
    ROUTER = "router"
    """The router of a ``vllm_pd`` entry."""
    RAY_CLUSTER = "ray_cluster"
    """A ``ray`` service: head on the driver's node, workers on the rest."""


@dataclass(frozen=True)
class ServicePlacement:
    """Nodes of one deployed service. ``nodes[0]`` is its head; its step runs one task on each node."""

    name: str
    shape: Shape
    nodes: tuple[int, ...]
    ray_port: int | None = None
    """Port of the Ray head that a RAY_BACKED or GATEWAY service starts for itself."""
    local_instances: int = 1
    """Instances that one node hosts (SINGLE and DATA_PARALLEL)."""

    @property
    def first_node(self) -> int:
        """Return the number (from 0, within the allocation) of the head's node, where the API (or Ray head) listens."""
        return self.nodes[0]

    @property
    def api_node(self) -> int:
        """Return the number of the node to reach the service at; with PER_NODE the first of ``api_nodes``."""
        return self.nodes[0]

    @property
    def api_nodes(self) -> tuple[int, ...]:
        """Return every node on which the service listens: all of them with PER_NODE, else the first."""
        return self.nodes if self.shape is Shape.PER_NODE else self.nodes[:1]

    @property
    def tasks(self) -> int:
        """Return the number of tasks of the service's step: one for each node, whatever ``ntasks_per_node`` says."""
        return len(self.nodes)


@dataclass(frozen=True)
class Placement:
    """Where the whole job runs."""

    total_nodes: int
    pools: Mapping[str, tuple[int, ...]]
    services: Mapping[str, ServicePlacement]
    driver_node: int = 0
    by_pool: bool = False
    """Whether any service is placed by pool, so that ``GYM_POOL_<POOL>_NODES`` are exported."""

    @property
    def head_node(self) -> int:
        """Return the number of the allocation's first node: nodes are counted from 0."""
        return 0

    @property
    def spans_nodes(self) -> bool:
        """Return whether a vLLM service spans nodes, so that ``HEAD_NODE_IP`` and ``RAY_HEAD_NODE_IP`` are exported."""
        spanning = (Shape.RAY_BACKED, Shape.DATA_PARALLEL, Shape.GATEWAY)
        return any(len(service.nodes) > 1 and service.shape in spanning for service in self.services.values())


class Placeable(Protocol):
    """The part of a config that placement looks at."""

    @property
    def cluster(self) -> SlurmComputeConfig:
        """Return the compute entry."""

    @property
    def deployed_services(self) -> Mapping[str, BaseServiceConfig]:
        """Return the services with each ``vllm_pd`` entry expanded."""

    @property
    def policy_model(self) -> str | None:
        """Return the name of the policy service."""


def pool_ranges(pools: Mapping[str, NodePool]) -> dict[str, tuple[int, ...]]:
    """Give each pool its contiguous nodes, after those of all pools before it."""
    ranges: dict[str, tuple[int, ...]] = {}
    start = 0
    for name, pool in pools.items():
        ranges[name] = tuple(range(start, start + pool.nodes))
        start += pool.nodes
    return ranges


def gateway_manages(service: VllmServiceConfig, nodes: int, gpus_per_node: Iterable[int | None]) -> bool:
    """Return whether the Ray Serve gateway runs the instances: asked for, or because one exceeds a node of several.

    Without declared GPUs nothing is known to exceed a node.
    """
    declared = [gpus for gpus in gpus_per_node if gpus is not None]
    exceeds = bool(declared) and service.instance_gpus > min(declared)
    return service.use_ray_serve or (nodes > 1 and service.number_of_instances > 1 and exceeds)


def vllm_shape(service: VllmServiceConfig, nodes: int, gpus_per_node: Iterable[int | None]) -> Shape:
    """Return how a vLLM service (or tier) is deployed on so many nodes with so many GPUs each (None: not declared)."""
    if isinstance(service, VllmPDTierConfig) and service.server_per_node:
        return Shape.PER_NODE
    if gateway_manages(service, nodes, gpus_per_node):
        return Shape.GATEWAY
    if nodes == 1:
        return Shape.SINGLE
    return Shape.RAY_BACKED if service.number_of_instances == 1 else Shape.DATA_PARALLEL


def spanned_pools(service: BaseServiceConfig, pools: Mapping[str, NodePool]) -> list[NodePool]:
    """Return the pools whose nodes a service may use: its own, or all of them when it is not pinned."""
    own = pools.get(service.node_pool or "")
    return [own] if own else list(pools.values())


def place(config: Placeable) -> Placement:
    """Work out which nodes every deployed service and the driver run on.

    Pool names that do not exist are taken as not pinned: a checked config has none.
    """
    pools = config.cluster.node_pools
    ranges = pool_ranges(pools)
    total = config.cluster.total_nodes
    deployed = config.deployed_services
    policy = deployed.get(config.policy_model) if config.policy_model else None
    driver = ranges[policy.node_pool][0] if policy and policy.node_pool in ranges else 0
    placed: dict[str, ServicePlacement] = {}
    for name, service in deployed.items():
        placed[name] = _place_service(name, service, pools, ranges, driver)
    by_pool = any(
        service.node_pool or (isinstance(service, RayServiceConfig) and service.node_pools)
        for service in deployed.values()
    )
    return Placement(total, ranges, _with_ray_ports(placed, deployed), driver, by_pool)


def _place_service(
    name: str,
    service: BaseServiceConfig,
    pools: Mapping[str, NodePool],
    ranges: Mapping[str, tuple[int, ...]],
    driver: int,
) -> ServicePlacement:
    everything = tuple(range(sum(map(len, ranges.values())) or 1))
    if isinstance(service, RayServiceConfig):
        others = [node for pool in service.node_pools for node in ranges.get(pool, ()) if node != driver]
        return ServicePlacement(name, Shape.RAY_CLUSTER, (driver, *sorted(others)))
    own = ranges.get(service.node_pool or "")
    if isinstance(service, VllmPDServiceConfig):
        return ServicePlacement(name, Shape.ROUTER, (own[0] if own else driver,))
    if not isinstance(service, VllmServiceConfig):
        return ServicePlacement(name, Shape.SINGLE, (own[0] if own else driver,))
    nodes = own or everything
    gpus = [pool.gpus_per_node for pool in spanned_pools(service, pools)]
    shape = vllm_shape(service, len(nodes), gpus)
    local = service.number_of_instances // len(nodes) if shape is Shape.DATA_PARALLEL else service.number_of_instances
    return ServicePlacement(name, shape, nodes, local_instances=max(local, 1))


def _with_ray_ports(
    placed: Mapping[str, ServicePlacement], deployed: Mapping[str, BaseServiceConfig]
) -> dict[str, ServicePlacement]:
    """Give every Ray cluster that vLLM starts for itself a port that nothing else on its nodes uses."""
    used: dict[int, set[int]] = {}
    for name, where in placed.items():
        for node in where.nodes:
            used.setdefault(node, set()).update(declared_ports(deployed[name]))
    result: dict[str, ServicePlacement] = {}
    for name, where in placed.items():
        result[name] = where
        if where.shape in (Shape.RAY_BACKED, Shape.GATEWAY):
            taken = set().union(*(used[node] for node in where.nodes))
            port = next(port for port in range(DEFAULT_RAY_PORT, 65536) if port not in taken)
            for node in where.nodes:
                used[node].add(port)
            result[name] = ServicePlacement(name, where.shape, where.nodes, port, where.local_instances)
    return result


def declared_ports(service: BaseServiceConfig) -> set[int]:
    """Return the ports that the config itself gives to a service."""
    ports = {getattr(service, "port", None)}
    if isinstance(service, VllmServiceConfig):
        ports.add(service.data_parallel_rpc_port)
    if isinstance(service, VllmPDTierConfig):
        ports.add(service.nixl_side_channel_port)
    return {port for port in ports if port is not None}
