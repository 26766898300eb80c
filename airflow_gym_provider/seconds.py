"""Numbers of seconds among the arguments of operators, sensors and triggers. Imports next to nothing: DAG files do."""

from __future__ import annotations

import math
from datetime import timedelta

Seconds = float | timedelta


def seconds(name: str, value: Seconds, *, zero: bool = False) -> float:
    """What the argument `name` gives, in seconds; a timedelta counts as such, as for Airflow's own arguments.

    Raises ValueError, with what to write instead, for what is no finite number above zero (with `zero`: or zero): it
    would only be noticed when a job has been queued, and then by everybody who waits for that login node.
    """
    try:
        found = value.total_seconds() if isinstance(value, timedelta) else float(value)
    except (TypeError, ValueError):
        found = math.nan
    if isinstance(value, bool) or not math.isfinite(found) or found < 0 or (found == 0 and not zero):
        least = "zero or more" if zero else "more than zero"
        raise ValueError(f"{name} is {value!r}; write {least} seconds, such as 30, or a timedelta")
    return found
