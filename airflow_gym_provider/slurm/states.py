"""Slurm's words for the state of a job: which of them mean that it is over, and how.

The one rule behind the table: what is not known to be an end is not an end. A word from a newer Slurm, a flag such as
COMPLETING or REQUEUE_HOLD, an empty cell: all of them keep a job alive, because taking a live job for a finished one
runs an evaluation twice, while waiting for a finished one costs minutes.
"""

from __future__ import annotations

import re
from enum import StrEnum

__all__ = ["Ending", "State", "cancelled_by", "ending_of", "is_live", "state_word"]


class State(StrEnum):
    """Every state that squeue or sacct print up to Slurm 25 (man squeue, JOB STATE CODES)."""

    BOOT_FAIL = "BOOT_FAIL"
    CANCELLED = "CANCELLED"
    COMPLETED = "COMPLETED"
    COMPLETING = "COMPLETING"
    CONFIGURING = "CONFIGURING"
    DEADLINE = "DEADLINE"
    EXPEDITING = "EXPEDITING"
    FAILED = "FAILED"
    LAUNCH_FAILED = "LAUNCH_FAILED"
    NODE_FAIL = "NODE_FAIL"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    PENDING = "PENDING"
    POWER_UP_NODE = "POWER_UP_NODE"
    PREEMPTED = "PREEMPTED"
    RECONFIG_FAIL = "RECONFIG_FAIL"
    REQUEUED = "REQUEUED"
    REQUEUE_FED = "REQUEUE_FED"
    REQUEUE_HOLD = "REQUEUE_HOLD"
    RESIZING = "RESIZING"
    RESV_DEL_HOLD = "RESV_DEL_HOLD"
    REVOKED = "REVOKED"
    RUNNING = "RUNNING"
    SIGNALING = "SIGNALING"
    SPECIAL_EXIT = "SPECIAL_EXIT"
    STAGE_OUT = "STAGE_OUT"
    STOPPED = "STOPPED"
    SUSPENDED = "SUSPENDED"
    TIMEOUT = "TIMEOUT"
    UPDATE_DB = "UPDATE_DB"


class Ending(StrEnum):
    """How a job ended. LOST is no word of Slurm's: squeue and sacct both answer, and neither has heard of the job."""

    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    TIMEOUT = "TIMEOUT"
    PREEMPTED = "PREEMPTED"
    NODE_FAIL = "NODE_FAIL"
    CANCELLED = "CANCELLED"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    BOOT_FAIL = "BOOT_FAIL"
    DEADLINE = "DEADLINE"
    LOST = "LOST"


_ENDINGS = {str(ending): ending for ending in Ending if ending is not Ending.LOST}
_CANCELLED_BY = re.compile(r"CANCELLED by (\d+)", re.IGNORECASE)


def state_word(text: str) -> str:
    """The state in a cell: its first word in capitals, completed when a narrow column cut it.

    "CANCELLED by 1000", "CANCELLED+" and "cancelled" are CANCELLED, "OUT_OF_ME+" is OUT_OF_MEMORY. A word that is not
    in the table comes back as it is; a cut one that fits none or several stays cut; nothing gives "".
    """
    word = text.split(maxsplit=1)[0].upper() if text.split() else ""
    if not word.endswith("+"):
        return word
    fits = [str(state) for state in State if state.startswith(word[:-1])]
    return fits[0] if len(fits) == 1 and len(word) > 1 else word


def is_live(state: str) -> bool:
    """Whether a job in this state may still run or run again: True for every word that is not a known end."""
    return state_word(state) not in _ENDINGS


def ending_of(state: str) -> Ending | None:
    """How a job in this state ended; None while it is live. Never LOST."""
    return _ENDINGS.get(state_word(state))


def cancelled_by(state: str) -> int | None:
    """The user id in "CANCELLED by 1000"; None when the text names nobody."""
    match = _CANCELLED_BY.match(state.strip())
    return int(match[1]) if match else None
