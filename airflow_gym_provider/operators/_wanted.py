"""Whether anybody wants the end of a task whose process is being ended; see `triggers.task_state`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowTaskTimeout

from airflow_gym_provider.triggers.task_state import CLEARED_WHILE_RUNNING, ENDED, answer, has_supervisor, question

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context


def timed_out() -> bool:
    """Whether `execution_timeout` is what ends the task: Airflow calls `on_kill` while it handles that exception."""
    return isinstance(sys.exc_info()[1], AirflowTaskTimeout)


def reason_to_go_on(context: Context) -> str | None:
    """Why the job of this task is to go on, for people; None when it is to be cancelled.

    Asks Airflow, through the task's supervisor, and so takes as long as that takes. Without one (`dag.test()`) there is
    no other process that could take the job up, and whoever ends this one means it. An API server that does not answer
    may be the very reason for which this process is ended.
    """
    if not has_supervisor():
        return None
    ti = context["ti"]
    try:
        state = answer(ti.get_task_states(**question(ti)))
    except Exception as err:
        return f"Airflow does not answer ({type(err).__name__})"
    if state in ENDED or state == CLEARED_WHILE_RUNNING:
        return None
    return f"nobody has marked or cleared the task (its state is {state})"
