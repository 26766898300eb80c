"""The aggregate metrics file of gym as flat numbers that fit XCom and a gate."""

from __future__ import annotations

from typing import Any

from airflow_gym_provider.results.collected import Collected, parse_json

__all__ = ["MetricsError", "key_metrics"]

_LONGEST_AGENT = 200


class MetricsError(ValueError):
    """The file is no aggregate of gym's; the text says what it is, to be read after the file's path."""


def key_metrics(data: bytes) -> tuple[dict[str, float], tuple[str, ...], list[str]]:
    """The key metrics of every agent, the agents' names in order, and remarks.

    The file is a list with one entry per agent. Names are the metrics' own ("mean/reward") when there is one agent, and
    begin with the agent ("solver/mean/reward") when there are several. Values that are no finite number (NaN and
    Infinity, which Python writes and JSON does not know, null, text) are left out, with a remark; so are a name that
    stands for two values, and what `Collected` bounds. Raises MetricsError.
    """
    entries = _entries(data)
    agents = _unique([_agent(entry) for entry in entries])
    found = Collected()
    for agent, entry in zip(agents, entries, strict=True):
        prefix = f"{agent}/" if len(agents) > 1 else ""
        values = entry.get("key_metrics")
        if not isinstance(values, dict):
            raise MetricsError(f"has no key_metrics for agent {agent}")
        for name, value in values.items():
            found.add(prefix, name, value)
    return found.metrics, tuple(agents), found.notes


def _entries(data: bytes) -> list[dict[str, Any]]:
    if not data.strip():
        raise MetricsError("is empty")
    try:
        content = parse_json(data)
    except (ValueError, RecursionError) as error:
        raise MetricsError(f"is not valid JSON: {error}") from None
    entries = content if isinstance(content, list) else [content]
    if not entries or not all(isinstance(entry, dict) for entry in entries):
        raise MetricsError("is not a list with one object per agent")
    return entries


def _agent(entry: dict[str, Any]) -> str:
    reference = entry.get("agent_ref")
    name = reference.get("name") if isinstance(reference, dict) else None
    return name[:_LONGEST_AGENT] if isinstance(name, str) and name else "agent"


def _unique(names: list[str]) -> list[str]:
    """Names told apart: the second "solver" is "solver#2"."""
    seen: dict[str, int] = {}
    told = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        told.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return told
