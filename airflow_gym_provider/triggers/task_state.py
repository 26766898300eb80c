"""How it stands with a task instance, asked of Airflow by its own process or trigger: is its end wanted, or only ours?

Airflow 3.3 calls `on_kill` for more than what people do. In a worker: when the machine is shut down or deployed anew,
when the API server has not answered some heartbeats, or when another try runs already because a scheduler thought that
this one was lost. In a triggerer: for every trigger that it finds no longer to be its own (`update_triggers` in
triggerer_job_runner.py), also because a second triggerer has taken it over or has woken the task. The task instance's
state tells them apart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from airflow_gym_provider import xcom_keys

GONE = "removed"
"""What is said of a task instance that is no longer there: its run was deleted."""
ENDED = frozenset({"failed", "success", "skipped", "upstream_failed", GONE})
"""Somebody has made an end of it."""
CLEARED_WHILE_RUNNING = "restarting"
WAITS = "deferred"
WAITS_AGAIN = "cleared, and deferred again"
"""Airflow has no such state: what `state_for_trigger` says when the task waits for another deferral's trigger."""


def has_supervisor() -> bool:
    """Whether Airflow can be asked from here; not so in `dag.test()`, nor in a plain process."""
    from airflow.sdk.execution_time import task_runner
    from airflow.sdk.execution_time.comms import CommsDecoder

    return isinstance(getattr(task_runner, "SUPERVISOR_COMMS", None), CommsDecoder)


def question(ti: Any) -> dict[str, Any]:
    """Arguments of `get_task_states` and of `GetTaskStates` for this one task instance."""
    return {"dag_id": ti.dag_id, "task_ids": [ti.task_id], "run_ids": [ti.run_id], "map_index": ti.map_index}


def answer(states: Mapping[str, Mapping[str, str | None]]) -> str:
    """The state that was answered; "none" for one that the scheduler has not looked at yet."""
    found = [state for tasks in states.values() for state in tasks.values()]
    return (found[0] or "none") if found else GONE


async def ask_from_trigger(ti: Any) -> str:
    """The state of a trigger's task instance. Raises what the way to Airflow raises."""
    from airflow.sdk.execution_time import task_runner
    from airflow.sdk.execution_time.comms import GetTaskStates, TaskStatesResult

    found = await task_runner.SUPERVISOR_COMMS.asend(GetTaskStates(**question(ti)))
    if not isinstance(found, TaskStatesResult):
        raise RuntimeError(f"Airflow answers with {type(found).__name__}")
    return answer(found.task_states)


async def state_for_trigger(ti: Any, max_tries: int | None) -> str:
    """As `ask_from_trigger`; WAITS_AGAIN when the task was cleared since the deferral that made this trigger.

    `max_tries`: that of the task instance at that time. It grows with every clear, and the next try, which may have
    taken up the job and wait already, has left it in the XCom `gym_job`.
    """
    state = await ask_from_trigger(ti)
    if state != WAITS or max_tries is None:
        return state
    now = await asyncio.to_thread(_max_tries_of_newest_try, ti)
    return WAITS_AGAIN if now > max_tries else state


def _max_tries_of_newest_try(ti: Any) -> int:
    from airflow.sdk.execution_time.xcom import XCom

    index = -1 if ti.map_index is None else ti.map_index
    place = XCom.get_one(key=xcom_keys.JOB, dag_id=ti.dag_id, task_id=ti.task_id, run_id=ti.run_id, map_index=index)
    found = place.get("max_tries") if isinstance(place, Mapping) else None
    return found if isinstance(found, int) else 0
