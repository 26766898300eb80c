"""The cluster that a command works on, by a connection of Airflow or on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from airflow_gym_provider._cli.command import CommandEnds, refused, unusable
from airflow_gym_provider.chain import ChainError, ForeignDirectoryError
from airflow_gym_provider.exceptions import SlurmTransportError
from airflow_gym_provider.hooks.slurm import SlurmHook


def connection(conn_id: str) -> Any:
    """A connection by its id, wherever Airflow keeps it. Raises CommandEnds when there is none to be had.

    The environment and secrets backends come before the database, so none is needed for a connection that is there.
    """
    from airflow.models.connection import Connection
    from airflow.sdk.exceptions import AirflowNotFoundException

    try:
        return Connection.get_connection_from_secrets(conn_id)
    except AirflowNotFoundException:
        raise unusable(
            f"there is no connection {conn_id!r}: neither AIRFLOW_CONN_{conn_id.upper()} nor Airflow's database (or it "
            "cannot be reached) has it; `airflow connections add` makes one"
        ) from None


@contextmanager
def cluster(conn_id: str | None, hostname: str | None = None) -> Iterator[SlurmHook]:
    """A hook to the cluster. What goes wrong within becomes the command's end: the cluster cannot be reached, or what
    is there cannot be used.
    """
    try:
        with SlurmHook(conn_id, hostname) as hook:
            if conn_id is not None:
                hook.use(connection(conn_id))
            yield hook
    except CommandEnds:
        raise
    except SlurmTransportError as err:
        raise unusable(str(err)) from None
    except ForeignDirectoryError as err:
        raise refused(str(err)) from None
    except ChainError as err:
        raise unusable(str(err)) from None
