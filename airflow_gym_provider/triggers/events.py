"""What a trigger tells the task that it wakes. Both sides share the words; the task checks the cluster itself."""

from __future__ import annotations

import time
from enum import StrEnum
from typing import Any, TypedDict

from airflow_gym_provider.slurm.states import ending_of
from airflow_gym_provider.slurm.status import JobStatus
from airflow_gym_provider.storable import storable


class EventReason(StrEnum):
    """Why a trigger is over."""

    ENDED = "ended"
    """Every job has ended, and how is known."""
    LOST = "lost"
    """squeue and sacct both answer, and have not known a job for longer than the grace."""
    DEADLINE = "deadline"
    """The task's time is over; its job has been cancelled if the login node could be reached."""
    REFUSED = "refused"
    """The login node refuses us, or the connection's settings are wrong: people must act."""


class JobEnd(TypedDict):
    """One job in an event. `elapsed` is in seconds. `accounted`: accounting has this end too, with its failed steps.

    `submit`, `start` and `end` are UTC as text, None when accounting has not said.
    """

    job_id: str
    state: str
    ending: str | None
    exit_code: int | None
    signal: int | None
    elapsed: int
    failed_steps: list[str]
    accounted: bool
    submit: str | None
    start: str | None
    end: str | None
    nodes: str


class JobEvent(TypedDict):
    """The payload of a trigger's event.

    `unknown_for`: seconds for which Slurm has not known the job (LOST only). `at`: when it was fired, in seconds since
    1970.
    """

    reason: str
    text: str
    jobs: list[JobEnd]
    unknown_for: float
    at: float


def job_end(status: JobStatus) -> JobEnd:
    """What an event says of one job."""
    return {
        "job_id": status.ref.key,
        "state": status.state,
        "ending": status.ending.value if status.ending else None,
        "exit_code": status.exit_code,
        "signal": status.signal,
        "elapsed": status.elapsed,
        "failed_steps": list(status.failed_steps)[:20],
        "accounted": any(ending_of(row.state) is status.ending for row in status.rows),
        "submit": status.rows[0].submit if status.rows else None,
        "start": status.rows[-1].start if status.rows else None,
        "end": status.rows[-1].end if status.rows else None,
        "nodes": status.nodes,
    }


def job_event(
    reason: EventReason, text: str = "", jobs: list[JobEnd] | None = None, unknown_for: float = 0
) -> JobEvent:
    """An event's payload: nothing but JSON, and what every database takes: else the triggerer dies of it."""
    told = {"reason": reason.value, "text": text, "jobs": jobs or [], "unknown_for": unknown_for, "at": time.time()}
    event: JobEvent = storable(told)
    return event


def reason_of(event: dict[str, Any] | None) -> EventReason | None:
    """The reason in a payload; None for one that is missing or from another release."""
    try:
        return EventReason(str((event or {}).get("reason")))
    except ValueError:
        return None
