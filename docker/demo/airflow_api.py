"""Airflow's public REST API, as much of it as the demo and the tests need. Standard library only."""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any


class AirflowApi:
    """One Airflow, logged in with a name and a password. The token is asked for anew when it runs out."""

    def __init__(self, url: str, user: str, password: str) -> None:
        """`url` is the API server's, without /api/v2."""
        self.url, self.user, self.password = url.rstrip("/"), user, password
        self.token = ""

    @classmethod
    def from_environ(cls) -> AirflowApi:
        """The one that `docker/airflow.sh env` names. Raises KeyError when nothing does."""
        names = ("GYM_AIRFLOW_URL", "GYM_AIRFLOW_USER", "GYM_AIRFLOW_PASSWORD")
        return cls(*(os.environ[name] for name in names))

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """One request below /api/v2. Raises urllib.error.HTTPError for what Airflow refuses."""
        try:
            return self._send(method, f"/api/v2/{path}", body)
        except urllib.error.HTTPError as error:
            if error.code != 401:
                raise
        login = {"username": self.user, "password": self.password}
        self.token = self._send("POST", "/auth/token", login)["access_token"]
        return self._send(method, f"/api/v2/{path}", body)

    def _send(self, method: str, path: str, body: dict[str, Any] | None) -> Any:
        request = urllib.request.Request(
            self.url + path,
            data=None if body is None else json.dumps(body).encode(),
            method=method,
            headers={"Content-Type": "application/json", "Authorization": f"Bearer {self.token}"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            content = answer.read()
        return json.loads(content) if content else None

    def wait_for_dag(self, dag_id: str, seconds: float) -> None:
        """Until the DAG processor has stored it. Raises TimeoutError with the import errors, if there are any."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                self.call("GET", f"dags/{dag_id}")
                return
            except urllib.error.HTTPError as error:
                if error.code != 404:
                    raise
            time.sleep(1)
        errors = self.call("GET", "importErrors")["import_errors"]
        raise TimeoutError(
            f"no DAG {dag_id} after {seconds:.0f} s; import errors: {[error['stack_trace'] for error in errors]}"
        )

    def trigger(self, dag_id: str) -> str:
        """Unpause the DAG and return the id of a run that has just begun: one that its schedule starts at that moment,
        as it does the first time, or else a new one."""
        runs = f"dags/{dag_id}/dagRuns"
        looks = 1 if self.call("GET", runs)["dag_runs"] else 30
        self.call("PATCH", f"dags/{dag_id}?update_mask=is_paused", {"is_paused": False})
        for _ in range(looks):
            time.sleep(1)
            for run in self.call("GET", runs)["dag_runs"]:
                if run["state"] in ("queued", "running"):
                    return str(run["dag_run_id"])
        return str(self.call("POST", runs, {"logical_date": None})["dag_run_id"])

    def run_state(self, dag_id: str, run_id: str) -> str:
        """queued, running, success or failed."""
        return str(self.call("GET", f"dags/{dag_id}/dagRuns/{urllib.parse.quote(run_id)}")["state"])

    def tasks(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """All task instances of a run, mapped ones one by one."""
        path = f"dags/{dag_id}/dagRuns/{urllib.parse.quote(run_id)}/taskInstances?order_by=id&limit=100"
        found: list[dict[str, Any]] = []
        while True:  # Airflow gives no more than a hundred at once
            page = self.call("GET", f"{path}&offset={len(found)}")
            found += page["task_instances"]
            if not page["task_instances"] or len(found) >= page["total_entries"]:
                return found

    def result(self, task: dict[str, Any], key: str = "return_value") -> Any:
        """An XCom of a task instance; None if there is none."""
        path = f"dags/{task['dag_id']}/dagRuns/{urllib.parse.quote(task['dag_run_id'])}/taskInstances/{task['task_id']}"
        try:
            found = self.call("GET", f"{path}/xcomEntries/{key}?map_index={task['map_index']}&deserialize=true")
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise
        return found["value"]

    def log(self, task: dict[str, Any], try_number: int) -> list[dict[str, Any]]:
        """The log of one try: one mapping per line, with `event` and whatever else was logged."""
        path = f"dags/{task['dag_id']}/dagRuns/{urllib.parse.quote(task['dag_run_id'])}/taskInstances/{task['task_id']}"
        found = self.call("GET", f"{path}/logs/{try_number}?map_index={task['map_index']}&full_content=true")
        return [line if isinstance(line, dict) else {"event": line} for line in found["content"]]

    def retry_reason(self, task: dict[str, Any]) -> str:
        """Why a task that is up for retry is: the words of its retry policy."""
        reasons = [line["reason"] for line in self.log(task, task["try_number"]) if line.get("reason")]
        return str(reasons[-1]) if reasons else "no reason in its log"
