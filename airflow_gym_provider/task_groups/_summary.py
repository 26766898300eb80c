"""The last task of `gym_evals`: every benchmark in one place, and red when one of them is not green."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_gym_provider import xcom_keys

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

_RETRY_DELAY = timedelta(seconds=10)


class GymSummaryOperator(BaseOperator):
    """Returns the results of all benchmarks, by name, and writes them into its log as a table.

    It runs whatever became of them, and fails when one is not green: a DAG run is as green as its last task. What it
    returns is there then as well (a task behind it that wants it needs the trigger rule `all_done`).

    :param validate_task_id: the task that returned the names of the benchmarks.
    :param eval_task_id: the mapped task that evaluated them, in the same order.
    """

    ui_color = "#e8f1d4"

    def __init__(self, *, validate_task_id: str, eval_task_id: str, **kwargs: Any) -> None:
        # For a worker that is killed: what it finds is final, and a red result is not tried again.
        super().__init__(**(kwargs | {"trigger_rule": "all_done", "retries": 2, "retry_delay": _RETRY_DELAY}))
        self.validate_task_id = validate_task_id
        self.eval_task_id = eval_task_id

    def execute(self, context: Context) -> dict[str, Any]:
        """The results. Raises AirflowFailException when a benchmark is not green."""
        from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

        from airflow_gym_provider.task_groups._table import table

        ti: Any = context["ti"]
        states = self._states(ti)
        validated = states.get(self.validate_task_id)
        if validated == "skipped":
            raise AirflowSkipException(f"{self.validate_task_id} was skipped")
        names = ti.xcom_pull(task_ids=self.validate_task_id) if validated == "success" else None
        if not names:
            raise AirflowFailException(f"Nothing was evaluated: {self.validate_task_id} is {validated}, see its log")
        rows = {name: self._row(ti, name, number, states) for number, name in enumerate(names)}
        self.log.info("results of this run:\n%s", table(rows))
        red = {name: values["reason"] for name, values in rows.items() if values["reason"]}
        if red:
            ti.xcom_push(key="return_value", value=rows)
            lines = "\n".join(f"  - {name}: {reason}" for name, reason in red.items())
            raise AirflowFailException(f"{len(red)} of {len(rows)} benchmarks are not green:\n{lines}")
        return rows

    def _states(self, ti: Any) -> dict[str, str]:
        """Task id, with its number behind an underscore when mapped, to state."""
        wanted = [self.validate_task_id, self.eval_task_id]
        found = ti.get_task_states(dag_id=ti.dag_id, task_ids=wanted, run_ids=[ti.run_id])
        return {name: str(state) for name, state in found.get(ti.run_id, {}).items()}

    def _row(self, ti: Any, name: str, number: int, states: dict[str, str]) -> dict[str, Any]:
        from airflow_gym_provider.task_groups._table import row

        def pull(key: str) -> Any:
            return ti.xcom_pull(task_ids=self.eval_task_id, map_indexes=number, key=key)

        state = states.get(f"{self.eval_task_id}_{number}", "not there")
        result = pull("return_value") if state == "success" else None
        if result and result.get("benchmark", name) != name:
            # validate was cleared and has named others since, and this task was not
            told = f"the task evaluated {result['benchmark']} instead; clear it, with validate"
            return row(name, "not evaluated", None, None, {"reason": told})
        if result:
            return row(name, state, result, None, None)
        return row(name, state, None, pull(xcom_keys.JOB), pull(xcom_keys.FAILURE))
