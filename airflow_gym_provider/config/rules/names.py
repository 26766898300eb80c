"""Names that would fall together once they are part of a file name or a shell variable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from airflow_gym_provider.config.draft import Draft
from airflow_gym_provider.config.errors import Problem
from airflow_gym_provider.config.names import shell_name
from airflow_gym_provider.config.services import service_type


def name_problems(draft: Draft) -> Iterator[Problem]:
    """Tiers may not be called like another service, nor two names become one shell variable."""
    deployed = list(draft.service_names)
    for name, service in draft.services.items():
        for tier in service.parts:
            tier_name = f"{name}-{tier}"
            if tier_name in draft.service_names:
                why = f"the {service_type(type(service))} service {name!r} deploys a tier of that name"
                yield Problem(f"services.{tier_name}", f"{why}; choose another name for {tier_name!r} or {name!r}")
            else:
                deployed.append(tier_name)
    yield from _folded("services", "services", deployed)
    if draft.compute is not None:
        yield from _folded(f"compute.{draft.cluster_name}.node_pools", "pools", draft.compute.node_pools)


def _folded(where: str, kind: str, names: Iterable[str]) -> Iterator[Problem]:
    first: dict[str, str] = {}
    for name in names:
        other = first.setdefault(shell_name(name), name)
        if other != name:
            both = f"the {kind} {other!r} and {name!r} become the same shell variable ({shell_name(name)})"
            yield Problem(f"{where}.{name}", f"{both}; rename one")
