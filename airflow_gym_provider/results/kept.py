"""The mean reward of every task, so small that Airflow's database may keep it: to compare runs whose files are gone.

One sign for each task, compressed: about a bit per task where rewards are 0 or 1. What does not fit is not kept.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import math
import zlib
from collections.abc import Mapping
from typing import Any

from airflow_gym_provider.results.numbers import is_number
from airflow_gym_provider.results.tasks import Task, TaskRewards

__all__ = ["keep_rewards", "kept_rewards", "kept_step"]

_SIGNS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz+/"
_STEPS = len(_SIGNS) - 1
_NONE = "-"
_LARGEST = 64 * 1024
"""Bytes that are unpacked at most: whoever may write XComs wrote the packed ones."""


def keep_rewards(rewards: TaskRewards, room: int) -> dict[str, Any] | None:
    """The rewards as JSON of at most `room` bytes; None when they do not fit.

    Exact up to 64 different values, else to a 63rd of their range.
    """
    names = sorted(rewards, key=lambda name: (len(name), name))
    values = [rewards[name].reward for name in names]
    known = sorted({value for value in values if value is not None})
    if not known:
        return None
    if len(known) > len(_SIGNS):
        low, high = known[0], known[-1]
        known = [low + step * (high - low) / _STEPS for step in range(len(_SIGNS))]
    signs = "".join(_sign(value, known) for value in values)
    dense = names == [str(at) for at in range(len(names))]
    packed = zlib.compress("\n".join([signs, *([] if dense else names)]).encode(), 9)
    prompts = hashlib.sha256("\n".join(f"{name} {rewards[name].prompt}" for name in names).encode()).hexdigest()[:16]
    kept = {
        "tasks": len(names),
        "values": [float(f"{value:.6g}") for value in known],
        "prompts": prompts if all(rewards[name].prompt != "0" for name in names) else "",
        "packed": base64.b64encode(packed).decode(),
    }
    return kept if len(json.dumps(kept)) <= room else None


def kept_rewards(kept: object) -> tuple[TaskRewards, str] | None:
    """The rewards of what `keep_rewards` gave, and a fingerprint of all questions ("" when unknown).

    None for what is not understood: it was in a database that others write as well.
    """
    if not isinstance(kept, Mapping):
        return None
    try:
        data = base64.b64decode(str(kept["packed"]), validate=True)
        unpacking = zlib.decompressobj()
        text = unpacking.decompress(data, _LARGEST).decode()
        if unpacking.unconsumed_tail:
            return None
        values = [float(value) for value in kept["values"]]
        if not all(map(math.isfinite, values)):
            return None
        signs, *names = text.split("\n")
        names = names or [str(at) for at in range(len(signs))]
        tasks = [
            Task("", name, 0, None if sign == _NONE else values[_SIGNS.index(sign)], "0")
            for name, sign in zip(names, signs, strict=True)
        ]
    except (KeyError, IndexError, TypeError, ValueError, OverflowError, binascii.Error, zlib.error):
        return None
    return TaskRewards.of(tasks), str(kept.get("prompts", ""))


def kept_step(kept: object) -> float:
    """By how much the kept values of two tasks differ at least, where they were rounded; 0.0 where they are exact.

    Each is off by half of it at most, and two runs of the same tasks are rounded to steps of their own.
    """
    values = kept.get("values") if isinstance(kept, Mapping) else None
    if not isinstance(values, list) or len(values) != len(_SIGNS) or not all(map(is_number, values)):
        return 0.0
    step = (float(values[-1]) - float(values[0])) / _STEPS
    room = 1e-5 * max(abs(float(values[0])), abs(float(values[-1])))  # they are written with six digits
    even = all(abs(float(value) - float(values[0]) - at * step) <= room for at, value in enumerate(values))
    return step if even and math.isfinite(step) else 0.0


def _sign(value: float | None, known: list[float]) -> str:
    if value is None:
        return _NONE
    return _SIGNS[min(range(len(known)), key=lambda at: abs(known[at] - value))]
