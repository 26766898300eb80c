"""What a config may leave out because the cluster's connection says it: account, partition, output path.

The order is config > connection > default. A key counts as left out when it is not there, null, or `???`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from omegaconf import DictConfig, OmegaConf

from airflow_gym_provider.config.errors import Problem
from airflow_gym_provider.config.show import escape

__all__ = ["ConfigDefaults", "explained", "fill_in"]

_ONLY_POOL = "default"
_FILLABLE = re.compile(r"job(\.output_path)?|compute\.[^.]+\.(account|node_pools\.[^.]+\.partition)")


@dataclass(frozen=True)
class ConfigDefaults:
    """Values for what a config leaves out; None has no value. `source` names in messages where they come from.

    `account` is for `compute.<name>.account`, `output_path` for `job.output_path`, `partition` for every node pool that
    has none; a config without pools gets one of one node, as is its default. All are literal: `${` means nothing.
    """

    account: str | None = None
    partition: str | None = None
    output_path: str | None = None
    source: str = "the defaults"


def fill_in(config: DictConfig, defaults: ConfigDefaults) -> dict[str, str]:
    """Put the defaults into a config that is merged and not resolved yet, in place.

    Returns the dotted place of each value that was filled in, with its source.
    """
    filled: dict[str, str] = {}

    def give(holder: DictConfig | None, key: str, value: str | None, where: str) -> None:
        if holder is not None and value and _left_out(holder, key):
            holder[key] = escape(value)
            filled[where] = defaults.source

    compute = _section(config, "compute")
    for name in _keys(compute):
        entry = _section(compute, name)
        give(entry, "account", defaults.account, f"compute.{name}.account")
        if entry is not None and defaults.partition and _empty(entry, "node_pools"):
            entry["node_pools"] = {_ONLY_POOL: {}}
        pools = _section(entry, "node_pools")
        for pool in _keys(pools):
            where = f"compute.{name}.node_pools.{pool}.partition"
            give(_section(pools, pool), "partition", defaults.partition, where)
    if defaults.output_path and _left_out(config, "job"):
        config["job"] = {}
    give(_section(config, "job"), "output_path", defaults.output_path, "job.output_path")
    return filled


def explained(problems: Iterable[Problem], filled: dict[str, str], defaults: ConfigDefaults) -> list[Problem]:
    """The problems, saying of a value that was filled in whence it came, and of one that is missing where it may be."""
    return [_explained(problem, filled, defaults) for problem in problems]


def _explained(problem: Problem, filled: dict[str, str], defaults: ConfigDefaults) -> Problem:
    if source := filled.get(problem.where):
        return replace(problem, what=f"{problem.what} (this value is from {source})")
    if problem.what == "is required" and _FILLABLE.fullmatch(problem.where):
        return replace(problem, what=f"is required: the config does not give it, nor does {defaults.source}")
    return problem


def _left_out(holder: DictConfig, key: str) -> bool:
    if key not in holder.keys():  # noqa: SIM118 - `in` would resolve the value
        return True
    return OmegaConf.is_missing(holder, key) or (not OmegaConf.is_interpolation(holder, key) and holder[key] is None)


def _empty(entry: DictConfig, key: str) -> bool:
    pools = _section(entry, key)
    return _left_out(entry, key) or (pools is not None and not pools)


def _section(holder: DictConfig | None, key: str) -> DictConfig | None:
    """The mapping under a key, if it is one that can be looked into."""
    if holder is None or _left_out(holder, key) or OmegaConf.is_interpolation(holder, key):
        return None
    value = holder[key]
    return value if isinstance(value, DictConfig) else None


def _keys(holder: DictConfig | None) -> list[str]:
    return [str(key) for key in holder] if holder is not None else []
