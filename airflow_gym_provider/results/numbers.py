"""What counts as a number among values that others wrote."""

from __future__ import annotations

import math
from typing import TypeGuard

__all__ = ["is_number"]


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether it is a finite number. True, texts, NaN, and integers beyond every float (JSON knows those) are none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False
