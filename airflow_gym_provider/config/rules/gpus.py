"""GPUs that a service needs against those it can use, by the shape in which it is deployed."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_gym_provider.config.draft import Draft
from airflow_gym_provider.config.errors import Problem
from airflow_gym_provider.config.placement import ServicePlacement, Shape, place, spanned_pools
from airflow_gym_provider.config.services import BaseServiceConfig


def gpu_findings(draft: Draft) -> tuple[list[Problem], list[Problem]]:
    """Return (errors, warnings): too few GPUs, instances that do not divide over nodes; GPUs that would idle."""
    errors: list[Problem] = []
    idle: list[Problem] = []
    services = draft.sure_services()
    placed = place(draft).services if services else {}
    for name, service in services.items():
        if not service.gpu_factors:
            continue
        where = draft.place_of(name)
        errors += _division_problems(where, service, placed[name])
        need, have, formula, unit = _footprint(draft, service, placed[name])
        if have is not None and need > have:
            cure = "use smaller sizes, fewer instances or more GPUs"
            errors.append(Problem(where, f"needs {need} GPUs ({formula}), but {unit} {have}; {cure}"))
        elif have is not None and need < have:
            idle.append(Problem(where, f"uses {need} GPUs ({formula}), but {unit} {have}: {have - need} would idle"))
    return errors, idle


def _division_problems(where: str, service: BaseServiceConfig, placed: ServicePlacement) -> Iterator[Problem]:
    nodes = len(placed.nodes)
    count = service.instances
    if placed.shape is Shape.DATA_PARALLEL and count % nodes:
        cure = f"use a multiple of {nodes}, other nodes, or use_ray_serve: true"
        yield Problem(
            f"{where}.number_of_instances", f"{count} instances do not divide evenly over {nodes} nodes; {cure}"
        )


def _footprint(draft: Draft, service: BaseServiceConfig, placed: ServicePlacement) -> tuple[int, int | None, str, str]:
    """Return (needed, there or None when not declared, the formula, the unit it is compared with)."""
    pools = spanned_pools(service, draft.cluster.node_pools)
    gpus = [pool.gpus_per_node for pool in pools]
    declared = [count for count in gpus if count is not None]
    known = bool(pools) and len(declared) == len(gpus)
    node = min(declared) if known else None
    total = sum(count * pool.nodes for count, pool in zip(declared, pools, strict=True)) if known else None
    nodes, count, per_instance = len(placed.nodes), service.instances, service.instance_gpus
    one = " x ".join(f"{field} {size}" for field, size in service.gpu_factors.items())
    if placed.shape is Shape.PER_NODE:
        return per_instance, node, one, "one node has"
    if nodes == 1:
        return per_instance * count, node, f"{one} x {count} instances", "one node has"
    if placed.shape is Shape.RAY_BACKED:
        return per_instance, total, one, f"all {nodes} nodes together have"
    if placed.shape is Shape.GATEWAY:
        return per_instance * count, total, f"{one} x {count} instances", f"all {nodes} nodes together have"
    local = -(-count // nodes)
    return per_instance * local, node, f"{one} x {local} of {count} instances on each of {nodes} nodes", "one node has"
