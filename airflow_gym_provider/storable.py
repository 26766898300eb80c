"""What every database of Airflow's can keep: values that files and programs of a cluster wrote may hold more.

PostgreSQL refuses what SQLite takes: a NUL, half of a surrogate pair, and numbers that JSON does not know. A task that
pushes one of these fails at its very end, and a triggerer whose event holds one dies of it, and so does the next.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

_REFUSED = re.compile("[\x00\ud800-\udfff]")
_INSTEAD = "\ufffd"


def storable(value: Any) -> Any:
    """The value with U+FFFD for each such sign in texts and names, and None for NaN and Infinity. Tuples are lists."""
    if isinstance(value, str):
        return _REFUSED.sub(_INSTEAD, value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {storable(name): storable(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [storable(part) for part in value]
    return value
