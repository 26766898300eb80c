"""The order of metrics, and the few that fit into a line: for tables, and for events that other DAGs start from.

What comes back from Airflow's database has lost the order of its file: PostgreSQL keeps none of an object's names.
"""

from __future__ import annotations

from collections.abc import Mapping

MOST = 20
_FIRST = "mean/reward"


def headline(metrics: Mapping[str, float], most: int = MOST) -> dict[str, float]:
    """At most so many of them: mean rewards, which every benchmark has, before the others, each kind by name."""
    chosen = sorted(metrics.items(), key=lambda item: (item[0] != _FIRST, not item[0].endswith(_FIRST), item[0]))
    return dict(chosen[:most])
