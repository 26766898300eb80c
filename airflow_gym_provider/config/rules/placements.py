"""References from services to the compute entry and its pools, and what a prefill/decode pair demands of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from airflow_gym_provider.config.compute import NodePool
from airflow_gym_provider.config.draft import Draft
from airflow_gym_provider.config.errors import Problem
from airflow_gym_provider.config.services import BaseServiceConfig, RayServiceConfig, VllmPDServiceConfig
from airflow_gym_provider.config.suggest import did_you_mean, one_of


def placement_problems(draft: Draft) -> Iterator[Problem]:
    """Every ``placement``, ``node_pool`` and ``node_pools`` must name something that exists."""
    if draft.compute is None:
        return
    pools = draft.compute.node_pools
    for where, service in written_services(draft):
        if service.placement not in (None, draft.cluster_name):
            known = f"the only compute entry is {draft.cluster_name!r}"
            yield Problem(f"{where}.placement", f"{service.placement!r} does not exist; {known}", absent=True)
        if service.node_pool is not None and service.node_pool not in pools:
            yield _unknown_pool(f"{where}.node_pool", service.node_pool, pools)
        if isinstance(service, RayServiceConfig):
            for number, pool in enumerate(service.node_pools):
                if pool not in pools:
                    yield _unknown_pool(f"{where}.node_pools.{number}", pool, pools)


def pair_problems(draft: Draft) -> Iterator[Problem]:
    """Rules of ``vllm_pd``: a pool for each tier, different coordination ports, a router beside the driver."""
    pools = draft.compute.node_pools if draft.compute else {}
    for name, service in draft.services.items():
        if isinstance(service, VllmPDServiceConfig):
            where = f"services.{name}"
            yield from _tier_problems(where, service)
            yield from _port_problems(where, service)
            first = next(iter(pools), None)
            if service.node_pool in pools and service.node_pool != first:
                why = "the driver reaches the router over localhost on the first node"
                cure = f"pin it to the first pool, {first!r}, or leave node_pool out"
                what = f"the router is pinned to {service.node_pool!r}, but {why}; {cure}"
                yield Problem(f"{where}.node_pool", what)


def written_services(draft: Draft) -> Iterator[tuple[str, BaseServiceConfig]]:
    """Return every service as it is written, tiers included, with its place."""
    for name, service in draft.services.items():
        yield f"services.{name}", service
        for key, part in service.parts.items():
            yield f"services.{name}.{key}", part


def _unknown_pool(where: str, pool: str, pools: Mapping[str, NodePool]) -> Problem:
    known = did_you_mean(pool, pools) or f"; pools are {one_of(pools)}"
    what = f"the pool {pool!r} is not declared in the compute entry's node_pools{known}"
    return Problem(where, what, absent=True)


def _tier_problems(where: str, service: VllmPDServiceConfig) -> Iterator[Problem]:
    for tier, settings in service.parts.items():
        if settings.node_pool is None:
            what = "is required: each tier runs on a pool of its own"
            yield Problem(f"{where}.{tier}.node_pool", what, absent=True)
        if service.server_per_node and settings.number_of_instances != 1:
            why = f"must be 1 with server_per_node, not {settings.number_of_instances}"
            yield Problem(f"{where}.{tier}.number_of_instances", f"{why}: every node runs one independent server")
        if service.server_per_node and settings.use_ray_serve:
            yield Problem(f"{where}.{tier}.use_ray_serve", "cannot be combined with server_per_node; drop one of them")
    pool = service.prefill.node_pool
    if pool is not None and pool == service.decode.node_pool:
        yield Problem(
            f"{where}.decode.node_pool", f"is {pool!r}, which prefill has too; give each tier a pool of its own"
        )


def _port_problems(where: str, service: VllmPDServiceConfig) -> Iterator[Problem]:
    port = service.prefill.data_parallel_rpc_port
    if port == service.decode.data_parallel_rpc_port:
        yield Problem(
            f"{where}.decode.data_parallel_rpc_port",
            f"is {port}, which prefill has too; use another, such as {port + 1}",
        )
    if service.nixl_side_channel_port + 1 > 65535:
        yield Problem(f"{where}.nixl_side_channel_port", "must be at most 65534: decode uses the port after it")
