"""What a connection says instead of a config that leaves it out: extras `account`, `partition`, `output_path`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import BaseHook

from airflow_gym_provider.config.defaults import ConfigDefaults

if TYPE_CHECKING:
    from airflow.sdk import Connection


def connection_defaults(ssh_conn_id: str | None) -> ConfigDefaults | None:
    """The defaults of a connection, for `load_submit_config`; None without one. Raises when Airflow has no such.

    The order is config > connection > default: an empty extra counts as none.
    """
    return read_defaults(BaseHook.get_connection(ssh_conn_id)) if ssh_conn_id else None


def read_defaults(conn: Connection) -> ConfigDefaults:
    """The same of a connection at hand, of type `slurm` or `ssh`."""
    extra = conn.extra_dejson if conn.extra else {}
    values = {name: str(extra.get(name) or "").strip() or None for name in ("account", "partition", "output_path")}
    return ConfigDefaults(**values, source=f"connection {conn.conn_id!r}")
