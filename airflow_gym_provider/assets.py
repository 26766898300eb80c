"""Results as Airflow assets: `gym://<cluster>/<benchmark>` is updated by every green evaluation of that benchmark.

    with DAG("look_at_gpqa", schedule=[gym_asset("cluster", "gpqa")]): ...

The cluster is the name of the config's only `compute` entry. `Asset("gym://cluster/gpqa")` is the same asset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

if TYPE_CHECKING:
    from urllib.parse import SplitResult

    from airflow.sdk import Asset

SCHEME = "gym"
RESULTS = "gym_results"
"""Name of the AssetAlias through which tasks publish: `schedule=AssetAlias(RESULTS)` starts a DAG for any result."""


def gym_asset(cluster: str, benchmark: str) -> Asset:
    """The asset of one benchmark's results on one cluster. Raises ValueError when one of the names is empty."""
    from airflow.sdk import Asset

    if not cluster or not benchmark:
        raise ValueError(f"an asset of results wants a cluster and a benchmark, not {cluster!r} and {benchmark!r}")
    return Asset(f"{SCHEME}://{_word(cluster)}/{_word(benchmark)}")


def sanitize_uri(uri: SplitResult) -> SplitResult:
    """Airflow's question for every asset of the scheme `gym`: the one spelling of this address.

    Raises ValueError, hence a DAG import error, for what names no cluster, no benchmark or more than that.
    """
    cluster, benchmark = unquote(uri.netloc), unquote(uri.path.strip("/"))
    if not cluster or not benchmark or "/" in uri.path.strip("/") or uri.query:
        raise ValueError(f"{uri.geturl()!r} is no asset of results: write gym://<cluster>/<benchmark>")
    return uri._replace(netloc=_word(cluster), path=f"/{_word(benchmark)}")


def _word(name: str) -> str:
    """A compute entry may be called anything; in an address it is one word."""
    return quote(name, safe="")
