"""`artifacts/results.json` of a benchmark with its own command: any JSON, of which the plain numbers are metrics."""

from __future__ import annotations

import json
from collections.abc import Iterator

from airflow_gym_provider.results.numbers import is_number

__all__ = ["RESULTS_FILE", "HarnessError", "harness_metrics"]

RESULTS_FILE = "artifacts/results.json"
"""Where a custom harness leaves its numbers, from the benchmark's directory."""
_DEEPEST = 20


class HarnessError(ValueError):
    """The file is no JSON object; the text says what it is, to be read after the file's path."""


def harness_metrics(data: bytes) -> dict[str, float]:
    """The finite numbers of the object, nested ones with dotted names: `{"a": {"b": 1}}` is `a.b`.

    Texts, true and false, null, lists, NaN and Infinity are no metrics and are left out, as is what is nested deeper
    than twenty objects. Raises HarnessError.
    """
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise HarnessError(f"is not valid JSON: {error}") from None
    if not isinstance(content, dict):
        raise HarnessError("is not a JSON object of names and numbers")
    return dict(_numbers(content, "", _DEEPEST))


def _numbers(content: dict[str, object], prefix: str, depth: int) -> Iterator[tuple[str, float]]:
    for name, value in content.items():
        if isinstance(value, dict) and depth:
            yield from _numbers(value, f"{prefix}{name}.", depth - 1)
        elif is_number(value):
            yield f"{prefix}{name}", value
