"""What a green evaluation tells other DAGs: an event of the asset `gym://<cluster>/<benchmark>`.

Which asset that is follows from the config, which is read when the task runs. So every task has the alias as its
outlet, through which Airflow lets it name an asset then; one that is known before is an outlet by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, AssetAlias

from airflow_gym_provider.assets import RESULTS, gym_asset

if TYPE_CHECKING:
    from airflow_gym_provider.operators._chain import ChainTask

_PLACES = ("record", "run_dir", "job_dir", "job_id")
_TOLD = ("benchmark", "rollouts_done", "rollouts_expected", "complete", "summary", *_PLACES)


def with_alias(outlets: Any) -> list[Any]:
    """An operator's `outlets`, as one or several, with ours among them."""
    given = list(outlets) if isinstance(outlets, Sequence) else [outlets] if outlets else []
    names = [outlet.name for outlet in given if isinstance(outlet, AssetAlias)]
    return given if RESULTS in names else [*given, AssetAlias(RESULTS)]


def known_asset(config: Any, benchmark: Any) -> Asset | None:
    """The asset of a task whose config is a mapping in the DAG file; None when it is known at run time only."""
    if not isinstance(config, Mapping):
        return None
    clusters, benchmarks = _names(config, "compute"), _names(config, "driver", "benchmarks")
    name = benchmark or (benchmarks[0] if len(benchmarks) == 1 else None)
    if len(clusters) != 1 or not isinstance(name, str) or "{{" in clusters[0] + name:
        return None
    return gym_asset(clusters[0], name)


def _names(tree: Any, *path: str) -> list[str]:
    for key in path:
        tree = tree.get(key) if isinstance(tree, Mapping) else None
    return [str(name) for name in tree] if isinstance(tree, Mapping) else []


def publish(chain: ChainTask, outlets: Sequence[Any], result: Mapping[str, Any]) -> None:
    """Give the event its content: small, typed, free of secrets. Airflow makes the event when the task is green."""
    from airflow_gym_provider.results.headline import headline

    events: Any = chain.context.get("outlet_events")
    if events is None:
        return
    cluster = chain.here()[0].bounds.compute
    extra = {"cluster": cluster} | {name: result[name] for name in _TOLD} | {"metrics": headline(result["metrics"])}
    asset = gym_asset(cluster, result["benchmark"])
    for outlet in outlets:
        if isinstance(outlet, Asset) and outlet.uri == asset.uri:
            events[outlet].extra.update(extra)
            return
    events[AssetAlias(RESULTS)].add(asset, extra=extra)
