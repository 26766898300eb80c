"""Slurm's spelling of a length of time, both ways. Imports nothing, so that any room may use it."""

from __future__ import annotations

import re

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
# Slurm keeps a time limit as a 32-bit number of minutes, whose two largest values mean "no value" and "no limit".
_MAX_SECONDS = (2**32 - 3) * _MINUTE
_FORM = re.compile(
    r"(?:(?P<days>[0-9]{1,10})-(?P<hours>[0-9]{1,10})(?::(?P<minutes>[0-9]{1,10})(?::(?P<seconds>[0-9]{1,10}))?)?"
    r"|(?P<first>[0-9]{1,10})(?::(?P<second>[0-9]{1,10})(?::(?P<third>[0-9]{1,10}))?)?)\Z"
)

DURATION_FORMS = "MM, MM:SS, HH:MM:SS, D-HH, D-HH:MM or D-HH:MM:SS"


def parse_duration(text: str) -> int:
    """Seconds of a Slurm duration: ``MM``, ``MM:SS``, ``HH:MM:SS``, ``D-HH``, ``D-HH:MM`` or ``D-HH:MM:SS``.

    Like ``sbatch --time``, a part may exceed its usual range (``90:00`` is an hour and a half) and ``0-12`` is twelve
    hours. Zero is returned as 0; whoever needs a positive limit says so.

    Raises ValueError for anything else, words such as ``UNLIMITED`` and lengths beyond Slurm's own range included.
    """
    match = _FORM.match(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"{text!r} is not a duration; write {DURATION_FORMS}, in digits")
    part = {name: int(value) for name, value in match.groupdict().items() if value is not None}
    if "days" in part:
        hours, minutes, seconds = part["days"] * 24 + part["hours"], part.get("minutes", 0), part.get("seconds", 0)
    elif "third" in part:
        hours, minutes, seconds = part["first"], part["second"], part["third"]
    else:
        hours, minutes, seconds = 0, part["first"], part.get("second", 0)
    total = hours * _HOUR + minutes * _MINUTE + seconds
    if total > _MAX_SECONDS:
        raise ValueError(f"{text!r} is longer than Slurm can count (2^32 minutes)")
    return total


def format_duration(seconds: int) -> str:
    """``HH:MM:SS``, or ``D-HH:MM:SS`` from one day on; ``parse_duration`` reads it back to the same number.

    Raises ValueError for a negative number.
    """
    if seconds < 0:
        raise ValueError(f"a duration cannot be negative: {seconds}")
    days, rest = divmod(int(seconds), _DAY)
    clock = f"{rest // _HOUR:02d}:{rest % _HOUR // _MINUTE:02d}:{rest % _MINUTE:02d}"
    return f"{days}-{clock}" if days else clock
