"""Slurm's clocks and dates as numbers. Reading only: what people write in a config is `config.durations`' business."""

from __future__ import annotations

import re
from datetime import UTC, datetime

__all__ = ["clock_seconds", "epoch", "utc_text"]

_CLOCK = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)(?:\.\d+)?")
_DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")


def clock_seconds(text: str) -> int | None:
    """Seconds of a time as squeue prints it ("0:05", "1:02:03", "1-02:03:04").

    None for words: UNLIMITED, INVALID, N/A, Partition_Limit, NOT_SET, or nothing.
    """
    match = _CLOCK.fullmatch(text.strip())
    if not match:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def epoch(text: str | None) -> float | None:
    """Seconds since 1970 of a date that squeue or sacct printed under TZ=UTC0, as our commands ask them to.

    None for "Unknown", "None", "N/A", "", anything that is no date, and dates before Slurm's own zero.
    """
    if not text or not _DATE.fullmatch(text.strip()):
        return None
    try:
        return datetime.fromisoformat(text.strip()).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def utc_text(seconds: float) -> str:
    """A moment as Slurm's options take it under TZ=UTC0: "2026-01-31T08:00:00"."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
