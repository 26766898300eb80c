"""Two listeners on one port of one node: one of them could never start."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from airflow_gym_provider.config.draft import Draft
from airflow_gym_provider.config.errors import Problem
from airflow_gym_provider.config.placement import DEFAULT_RAY_PORT, Placement, ServicePlacement, Shape, place
from airflow_gym_provider.config.services import (
    BaseServiceConfig,
    RayServiceConfig,
    VllmPDTierConfig,
    VllmServiceConfig,
)

_COLLECTOR_PORTS = {4317: "OTLP over gRPC", 4318: "OTLP over HTTP", 13133: "health"}


@dataclass(frozen=True)
class _Listener:
    owner: str
    where: str
    port: int
    nodes: tuple[int, ...]


def port_problems(draft: Draft) -> Iterator[Problem]:
    """Report each pair of listeners that share a port and a node, once."""
    if draft.compute is None:
        return
    placement = place(draft)
    listeners = [*_collector(draft, placement), *_services(draft, placement)]
    for number, later in enumerate(listeners):
        for earlier in listeners[:number]:
            shared = sorted(set(later.nodes) & set(earlier.nodes))
            if later.port == earlier.port and shared:
                both = f"{later.owner} and {earlier.owner} both listen on port {later.port} of node {shared[0]}"
                yield Problem(later.where, f"{both}; give one of them another port")


def moved_ray_ports(draft: Draft) -> Iterator[Problem]:
    """Say where a Ray cluster that vLLM starts for itself makes way for a ray service on the usual port."""
    if draft.compute is None:
        return
    placement = place(draft)
    clusters = {
        node: name
        for name, service in draft.services.items()
        if isinstance(service, RayServiceConfig) and service.port == DEFAULT_RAY_PORT
        for node in placement.services[name].nodes
    }
    for name, placed in placement.services.items():
        other = next((clusters[node] for node in placed.nodes if node in clusters), None)
        if placed.ray_port not in (None, DEFAULT_RAY_PORT) and other is not None:
            what = f"port {DEFAULT_RAY_PORT} belongs to the ray service {other!r} on the same node"
            yield Problem(f"services.{name}", f"{what}, so its own Ray cluster uses {placed.ray_port} instead")


def _collector(draft: Draft, placement: Placement) -> Iterator[_Listener]:
    if draft.otel is not None and draft.otel.enabled:
        for port, use in _COLLECTOR_PORTS.items():
            yield _Listener(f"the otel collector ({use})", "otel", port, (placement.driver_node,))


def _services(draft: Draft, placement: Placement) -> Iterator[_Listener]:
    for name, service in draft.sure_services().items():
        yield from _ports_of(name, draft.place_of(name), service, placement.services[name])


def _ports_of(name: str, where: str, service: BaseServiceConfig, placed: ServicePlacement) -> Iterator[_Listener]:
    yield _Listener(repr(name), f"{where}.port", getattr(service, "port", 0), placed.api_nodes)
    if isinstance(service, VllmServiceConfig) and placed.shape is Shape.DATA_PARALLEL:
        port = service.data_parallel_rpc_port
        yield _Listener(f"{name!r} (data-parallel ranks)", f"{where}.data_parallel_rpc_port", port, placed.nodes[:1])
    if isinstance(service, VllmPDTierConfig):
        entry = where.rpartition(".")[0]
        owner = f"{name!r} (NIXL side channel)"
        yield _Listener(owner, f"{entry}.nixl_side_channel_port", service.nixl_side_channel_port, placed.nodes)
