"""Whether Airflow has no connection of a name, or only could not ask: it says "isn't defined" in both cases.

A misspelt `ssh_conn_id` is then told at once, while a secrets backend that is away is waited for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from airflow_gym_provider.exceptions import SlurmSettingsError

if TYPE_CHECKING:
    from airflow.sdk import Connection


def given_connection(conn_id: str) -> Connection:
    """The connection. Asks Airflow, so not from an event loop.

    Raises SlurmSettingsError when there certainly is none of that name, and what Airflow raises when it cannot say.
    """
    try:
        return BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        if not _nobody_has_it(conn_id):
            raise
        raise SlurmSettingsError(
            f"Airflow has no connection {conn_id!r}: check ssh_conn_id of the task, or add the connection"
        ) from None


def _nobody_has_it(conn_id: str) -> bool:
    """Whether each place that Airflow looks into says so itself. What is not known of this Airflow is no answer."""
    try:
        from airflow.sdk.execution_time.secrets.execution_api import ExecutionAPISecretsBackend
        from airflow.sdk.execution_time.supervisor import ensure_secrets_backend_loaded

        return all(
            _api_says_no(conn_id)
            if isinstance(place, ExecutionAPISecretsBackend)
            else place.get_connection(conn_id) is None
            for place in ensure_secrets_backend_loaded()
        )
    except Exception:
        return False


def _api_says_no(conn_id: str) -> bool:
    """The backend for the API server takes every trouble for a "no": its question, and the answer as it came."""
    from airflow.sdk.exceptions import ErrorType
    from airflow.sdk.execution_time import task_runner
    from airflow.sdk.execution_time.comms import ErrorResponse, GetConnection

    comms: Any = task_runner.SUPERVISOR_COMMS
    answer = comms.send(GetConnection(conn_id=conn_id))
    return isinstance(answer, ErrorResponse) and answer.error == ErrorType.CONNECTION_NOT_FOUND
