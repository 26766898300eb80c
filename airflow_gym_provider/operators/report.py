"""GymReportOperator: the evaluations of a DAG run as one HTML file, for people without access to Airflow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_gym_provider import xcom_keys
from airflow_gym_provider.operators._again import RetriedOperator, told_at_once

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

FILE = "report.html"
_TIMEOUT = 120.0
_KEYS = (xcom_keys.RESULT, xcom_keys.JOB, xcom_keys.CHAIN, xcom_keys.FAILURE)
_NOT_BEGUN = ("skipped", "upstream_failed")
_LINE = 76
_WRITE = """\
gym_report={path}
gym_new="$gym_report.$_gym_nonce" # no number that somebody else could guess, and put a link in its place
if base64 -d >"$gym_new" <<'GYM_REPORT' && chmod 0644 "$gym_new" && mv -fT "$gym_new" "$gym_report"
{content}
GYM_REPORT
then
  frame written
else
  rm -f "$gym_new"
fi
"""


@dataclass(frozen=True)
class _Instance:
    """An evaluation, with the XComs that it has left."""

    task_id: str
    map_index: int
    state: str
    xcoms: Mapping[str, Mapping[str, Any]]

    @property
    def place(self) -> str:
        return self.task_id if self.map_index < 0 else f"{self.task_id} [{self.map_index}]"

    @property
    def result(self) -> Mapping[str, Any] | None:
        return self.xcoms.get(xcom_keys.RESULT) or self.xcoms.get(xcom_keys.JOB)

    @property
    def benchmark(self) -> str:
        return str((self.result or {}).get("benchmark") or "")


class GymReportOperator(RetriedOperator):
    """Writes `report.html`, self-contained, for the evaluations of this DAG run, and returns its path.

    Into the run directory on the cluster, where the results are; or into a file on the worker, when `path` is given.
    It holds what the tasks returned: metrics, verdicts, jobs with their times, paths on the cluster. No secrets are
    there, and it loads nothing from anywhere. Runs whatever became of the evaluations, each of which has a row with its
    state, also one that failed before it had a job. Is skipped when none of them began, and fails when there is none.
    A login node that is away is tried again twice (`retries`, `retry_delay`).

    :param eval_task_ids: the task that evaluates, or several; mapped ones with all their instances (templated).
    :param gate_task_id: a `GymGateOperator` of the same run, whose verdicts are shown (templated).
    :param ssh_conn_id: SSH connection of the login node; None when its files are on the worker (templated).
    :param path: a file on the worker instead, such as one that is uploaded afterwards (templated).
    :param title: the report's (templated); the DAG and its run unless given.
    """

    template_fields: Sequence[str] = ("eval_task_ids", "gate_task_id", "ssh_conn_id", "path", "title")
    ui_color = "#e8f1d4"

    def __init__(
        self,
        *,
        eval_task_ids: str | Sequence[str],
        gate_task_id: str | None = None,
        ssh_conn_id: str | None = None,
        path: str | None = None,
        title: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**({"trigger_rule": "all_done"} | kwargs))
        self.eval_task_ids = eval_task_ids
        self.gate_task_id = gate_task_id
        self.ssh_conn_id = ssh_conn_id
        self.path = path
        self.title = title

    def execute(self, context: Context) -> str:
        """Write it; the path. Raises AirflowFailException without any evaluation, AirflowSkipException without need."""
        from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

        from airflow_gym_provider.ui.report import render_report

        ti: Any = context["ti"]
        found = _instances(ti, [self.eval_task_ids] if isinstance(self.eval_task_ids, str) else self.eval_task_ids)
        if not found:
            raise AirflowFailException(f"nothing to report: {self.eval_task_ids} left no results in this run")
        if all(one.state in _NOT_BEGUN for one in found):
            raise AirflowSkipException(f"nothing to report: {self.eval_task_ids} never began, see the tasks before it")
        gate = [self.gate_task_id] if self.gate_task_id else []
        content = render_report(
            [one.result for one in found],
            title=self.title or f"{ti.dag_id}, {ti.run_id}",
            chains=[one.xcoms for one in found],
            states=[one.state for one in found],
            places=[one.place for one in found],
            verdict=ti.xcom_pull(task_ids=gate, key=xcom_keys.VERDICT) if gate else None,
        )
        return self._write_here(content) if self.path else self._write_there(content, found)

    def _write_here(self, content: str) -> str:
        from pathlib import Path

        path = Path(str(self.path))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
        return str(path)

    def _write_there(self, content: str, found: Sequence[_Instance]) -> str:
        """Through the login node; whole or not at all."""
        from airflow.sdk.exceptions import AirflowException, AirflowFailException

        from airflow_gym_provider.hooks.slurm import SlurmHook

        place: Mapping[str, Any] = next((job for one in found if (job := one.xcoms.get(xcom_keys.JOB))), {})
        run_dir = place.get("run_dir")
        if not run_dir:
            raise AirflowFailException(
                "no evaluation came as far as a run directory for the report, see their logs; or give it a path"
            )
        path = f"{run_dir}/{FILE}"
        with told_at_once(), SlurmHook(self.ssh_conn_id, place.get("hostname")) as hook:
            hook.load()
            script = write_script(path, content)
            answer = hook.run(script, _TIMEOUT)
        if not script.frames(answer.stdout).named("written"):
            raise AirflowException(f"{path} could not be written: {answer.stderr.strip()[-500:]}")
        self.log.info("the report is in %s", path)
        return path


def write_script(path: str, content: str) -> Any:
    """The script that writes a text file on the login node, in one move."""
    from base64 import b64encode

    from airflow_gym_provider.jobscript import quote
    from airflow_gym_provider.slurm.remote import RemoteScript

    text = b64encode(content.encode()).decode()
    lines = "\n".join(text[at : at + _LINE] for at in range(0, len(text), _LINE))
    return RemoteScript.build(_WRITE.format(path=quote(path), content=lines), needs=())


def _instances(ti: Any, task_ids: Iterable[str]) -> list[_Instance]:
    """Every instance of these tasks, by benchmark."""
    found = []
    for task_id in task_ids:
        states = ti.get_task_states(dag_id=ti.dag_id, task_ids=[task_id], run_ids=[ti.run_id]).get(ti.run_id, {})
        for name, state in states.items():
            index = int(name.removeprefix(f"{task_id}_")) if name != task_id else -1
            if state != "removed":
                pulled = {key: ti.xcom_pull(task_ids=task_id, map_indexes=index, key=key) for key in _KEYS}
                xcoms = {key: value for key, value in pulled.items() if isinstance(value, Mapping)}
                found.append(_Instance(task_id, index, str(state or ""), xcoms))
    return sorted(found, key=lambda one: (one.benchmark or one.task_id, one.task_id, one.map_index))
