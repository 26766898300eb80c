"""Overrides that name a place by its role: ``@policy.model=/ckpt/7`` fits every config, however its service is called.

==================  ======================================================================================
``@policy.FIELD``   of the service that ``driver.policy_model`` names (of a pair's tiers as well)
``@cluster.FIELD``  of the only ``compute`` entry
``@run.KEY``        of ``run`` in every benchmark that has no ``command`` of its own
==================  ======================================================================================

What follows the ``=`` is data: it is taken as it stands, without Hydra's grammar and without interpolation, so that it
may come from a form or an event. Nothing after the ``=`` changes nothing. They come after the ordinary overrides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from airflow_gym_provider.config.brought_in import from_words, inert, plain
from airflow_gym_provider.config.errors import Problem
from airflow_gym_provider.config.scalars import read_plain
from airflow_gym_provider.config.services import HANDED_DOWN, TIERS

MARK = "@"
_ROLE = re.compile(r"@(policy|cluster|run)\.([A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*)\Z")


def apply_roles(config: DictConfig, texts: Sequence[str], problems: list[Problem]) -> None:
    """Apply such overrides in order, in place. Each that cannot be applied is reported without its value."""
    for text in texts:
        try:
            head, _, value = from_words(text).partition("=")
        except ValueError as error:
            problems.append(Problem("overrides", str(error)))
            continue
        if not plain(value).strip():
            continue
        if fault := _apply(config, head.strip(), value.strip()):
            absent = fault in _NOTHING.values()
            problems.append(Problem(f"override {head.strip()!r}", fault, absent=absent))


def _apply(config: DictConfig, head: str, text: str) -> str | None:
    found = _ROLE.match(head)
    if found is None:
        return "is no place that is named by its role: write @policy.FIELD=, @cluster.FIELD= or @run.KEY="
    role, field = found.groups()
    places = list(_PLACES[role](config))
    if not places:
        return _NOTHING[role]
    read = read_plain(text)
    value = inert(read) if isinstance(read, str) else read
    try:
        for place in places:
            OmegaConf.update(place, field, value, merge=False, force_add=True)
            for tier in _tiers(place, field) if role == "policy" else ():
                OmegaConf.update(tier, field, value, merge=False)
    except OmegaConfBaseException as error:
        return f"cannot be applied: {str(error).splitlines()[0]}"
    return None


def _policy(config: DictConfig) -> Iterator[DictConfig]:
    name = _held(_held(config, "driver"), "policy_model")
    service = _held(_held(config, "services"), plain(str(name))) if name is not None else None
    if isinstance(service, DictConfig):
        yield service


def _cluster(config: DictConfig) -> Iterator[DictConfig]:
    entries = _held(config, "compute")
    if isinstance(entries, DictConfig):
        found = [_held(entries, str(name)) for name in entries]
        yield from (entry for entry in found if isinstance(entry, DictConfig))


def _runs(config: DictConfig) -> Iterator[DictConfig]:
    benchmarks = _held(_held(config, "driver"), "benchmarks")
    for name in benchmarks if isinstance(benchmarks, DictConfig) else ():
        benchmark = _held(benchmarks, str(name))
        if not isinstance(benchmark, DictConfig) or _held(benchmark, "command") is not None:
            continue
        if "run" not in benchmark:
            benchmark["run"] = {}
        run = _held(benchmark, "run")
        if isinstance(run, DictConfig):
            yield run


_PLACES = {"policy": _policy, "cluster": _cluster, "run": _runs}
_NOTHING = {
    "policy": "driver.policy_model names no service of this config, so there is none that it could change",
    "cluster": "compute has no entry that it could change",
    "run": "no benchmark has a run that it could change: those with a command of their own have none",
}


def _tiers(service: DictConfig, field: str) -> list[DictConfig]:
    """The tiers of a pair that say for themselves what the whole pair is now told."""
    if field not in HANDED_DOWN:
        return []
    tiers = [_held(service, tier) for tier in TIERS]
    return [tier for tier in tiers if isinstance(tier, DictConfig) and field in tier]


def _held(tree: Any, key: str) -> Any:
    """What a mapping holds there; None when it holds nothing, or something that cannot be worked out yet."""
    if not isinstance(tree, DictConfig) or key not in tree:
        return None
    try:
        return tree[key]
    except OmegaConfBaseException:
        return None
