"""A connection that is not there is told from one that nobody could be asked for."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowNotFoundException, ErrorType
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import ConnectionResult, ErrorResponse

from airflow_gym_provider.exceptions import SlurmSettingsError
from airflow_gym_provider.hooks.defaults import connection_defaults
from airflow_gym_provider.hooks.missing import given_connection
from airflow_gym_provider.hooks.slurm import SlurmHook


class Supervisor:
    """Stands for the process between a task and the API server: answers each question with `answer`, or fails."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def send(self, msg: Any) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch):
    """What the API server answers to whoever asks for a connection."""

    def answers(answer: Any) -> None:
        monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", Supervisor(answer), raising=False)

    return answers


@pytest.mark.parametrize("ask", [given_connection, connection_defaults, lambda name: SlurmHook(name).load()])
def test_a_misspelt_connection_is_no_outage(api, ask) -> None:
    api(ErrorResponse(error=ErrorType.CONNECTION_NOT_FOUND))
    with pytest.raises(SlurmSettingsError, match=r"Airflow has no connection 'tpyo': check ssh_conn_id"):
        ask("tpyo")


@pytest.mark.parametrize("answer", [ErrorResponse(error=ErrorType.API_SERVER_ERROR), OSError("gone"), None])
def test_an_api_server_that_is_away_is_one(api, answer) -> None:
    api(answer)
    with pytest.raises(AirflowNotFoundException):
        given_connection("login")


def test_a_secrets_backend_that_is_away_is_one(api, monkeypatch) -> None:
    class Vault:
        def get_connection(self, conn_id: str) -> None:
            raise ConnectionError("sealed")

    api(ErrorResponse(error=ErrorType.CONNECTION_NOT_FOUND))
    monkeypatch.setattr(
        "airflow.sdk.execution_time.supervisor.ensure_secrets_backend_loaded", lambda: [Vault()], raising=True
    )
    with pytest.raises(AirflowNotFoundException):
        given_connection("login")


def test_one_that_is_there_is_given(api) -> None:
    given = {"conn_id": "login", "conn_type": "ssh", "host": "h"}
    none = dict.fromkeys(("schema", "login", "password", "port", "extra"))
    api(ConnectionResult(**given, **none))
    assert given_connection("login").host == "h"
