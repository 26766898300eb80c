"""Whether anybody wants the end of a task whose process is being ended.

Airflow ends a worker's process by SIGTERM, hence by `on_kill`, for two kinds of reasons. Somebody marked the task,
cleared it or deleted its run: then its Slurm job has to go. Or a machine is shut down or deployed anew, the API server
has not answered a few heartbeats, or another try of this task runs already because a scheduler thought that this one
was lost: then the job must go on, for the next try takes it up. The signal is the same; the task's state tells.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowTaskTimeout

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

_ENDED = ("failed", "success", "skipped", "upstream_failed", "removed", "restarting")
"""States of a task instance of which somebody else has made an end; a cleared one is "restarting" until it has gone."""


def timed_out() -> bool:
    """Whether `execution_timeout` is what ends the task: Airflow calls `on_kill` while it handles that exception."""
    return isinstance(sys.exc_info()[1], AirflowTaskTimeout)


def reason_to_go_on(context: Context) -> str | None:
    """Why the job of this task is to go on, for people; None when it is to be cancelled.

    Asks Airflow, through the task's supervisor, and so takes as long as that takes. Without one (`dag.test()`) there is
    no other process that could take the job up, and whoever ends this one means it.
    """
    if not _has_supervisor():
        return None
    ti = context["ti"]
    try:
        states = ti.get_task_states(
            dag_id=ti.dag_id, task_ids=[ti.task_id], run_ids=[ti.run_id], map_index=ti.map_index
        )
    except Exception as err:
        return f"Airflow does not answer ({type(err).__name__})"
    # One task instance at most was asked for; none is left of a run that was deleted.
    found = [state for tasks in states.values() for state in tasks.values()]
    if not found or found[0] in _ENDED:
        return None
    return f"nobody has marked or cleared the task (it is {found[0] or 'to be scheduled'})"


def _has_supervisor() -> bool:
    from airflow.sdk.execution_time import task_runner
    from airflow.sdk.execution_time.comms import CommsDecoder

    return isinstance(getattr(task_runner, "SUPERVISOR_COMMS", None), CommsDecoder)
