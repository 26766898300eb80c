"""`artifacts/results.json` of a benchmark with its own command: any JSON, of which the plain numbers are metrics."""

from __future__ import annotations

from airflow_gym_provider.results.collected import Collected, parse_json

__all__ = ["RESULTS_FILE", "HarnessError", "harness_metrics", "harness_results"]

RESULTS_FILE = "artifacts/results.json"
"""Where a custom harness leaves its numbers, from the benchmark's directory."""
_DEEPEST = 20


class HarnessError(ValueError):
    """The file is no JSON object; the text says what it is, to be read after the file's path."""


def harness_metrics(data: bytes) -> dict[str, float]:
    """The metrics of `harness_results`."""
    return harness_results(data)[0]


def harness_results(data: bytes) -> tuple[dict[str, float], list[str]]:
    """The finite numbers of the object, nested ones with dotted names: `{"a": {"b": 1}}` is `a.b`; and remarks.

    Texts, true and false, null, lists, NaN and Infinity are no metrics and are left out, as is what is nested deeper
    than twenty objects. Names that stand for two values, and what `Collected` bounds, are left out with a remark.
    Raises HarnessError.
    """
    try:
        content = parse_json(data)
    except (ValueError, RecursionError) as error:
        raise HarnessError(f"is not valid JSON: {error}") from None
    if not isinstance(content, dict):
        raise HarnessError("is not a JSON object of names and numbers")
    found = Collected()
    _collect(content, "", _DEEPEST, found)
    return found.metrics, found.notes


def _collect(content: dict[str, object], prefix: str, depth: int, found: Collected) -> None:
    for name, value in content.items():
        if not isinstance(value, dict):
            found.add(prefix, name, value, told=False)
        elif depth and not found.too_long(prefix, f"{name}."):
            _collect(value, f"{prefix}{name}.", depth - 1, found)
