"""The results of several benchmarks as values and as a table for people. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_gym_provider.results.headline import headline

COLUMNS = ("benchmark", "state", "rollouts", "jobs", "metrics")
_IN_A_CELL = 3


def row(
    name: str,
    state: str,
    result: Mapping[str, Any] | None,
    place: Mapping[str, Any] | None,
    failure: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """One benchmark out of its task's XComs: what it returned, `gym_job`, `gym_failure`. Small and typed.

    `reason` is None when it is green. Of a red one the rest is what is known of it.
    """
    known = {**(place or {}), **(result or {})}
    reason = None
    if state != "success":
        told = str((failure or {}).get("reason") or f"the task is {state}, see its log")
        reason = told.removeprefix(f"{name}: ")
    return {
        "state": state,
        "rollouts_done": known.get("rollouts_done"),
        "rollouts_expected": known.get("rollouts_expected"),
        "complete": bool(known.get("complete")),
        "metrics": headline(known.get("metrics") or {}),
        "job_ids": known.get("job_ids") or [known["job_id"]] if known.get("job_id") else [],
        "job_states": known.get("job_states") or [],
        "chain_elapsed_seconds": known.get("chain_elapsed_seconds"),
        "job_dir": known.get("job_dir"),
        "record": known.get("record"),
        "reason": reason,
    }


def table(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Columns as wide as they must be; the reasons of the red ones below."""
    lines = [COLUMNS, *(_cells(name, values) for name, values in rows.items())]
    widths = [max(len(line[column]) for line in lines) for column in range(len(COLUMNS))]
    texts = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
    reasons = [f"{name}: {values['reason']}" for name, values in rows.items() if values["reason"]]
    return "\n".join([texts[0], "-" * max(map(len, texts)), *texts[1:], *([""] if reasons else []), *reasons])


def _cells(name: str, values: Mapping[str, Any]) -> Sequence[str]:
    done, expected = values["rollouts_done"], values["rollouts_expected"]
    jobs = [*values["job_ids"]]
    for number, state in enumerate(values["job_states"]):
        jobs[number] = f"{jobs[number]} {state}"
    return (
        name,
        str(values["state"]),
        "" if done is None else f"{done}/{'?' if expected is None else expected}",
        ", ".join(jobs),
        "  ".join(f"{metric}={value:g}" for metric, value in headline(values["metrics"], _IN_A_CELL).items()),
    )
