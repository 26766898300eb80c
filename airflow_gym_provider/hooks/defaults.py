"""What a connection says instead of a config that leaves it out: extras `account`, `partition`, `output_path`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gym_provider.config.defaults import ConfigDefaults

if TYPE_CHECKING:
    from airflow.sdk import Connection


_FILL = ("account", "partition", "output_path")


def connection_defaults(ssh_conn_id: str | None) -> ConfigDefaults | None:
    """The defaults of a connection, for `load_submit_config`; None without one. Raises as `given_connection`.

    The order is config > connection > default: an empty extra counts as none.
    """
    if not ssh_conn_id:
        return None
    from airflow_gym_provider.hooks.missing import given_connection

    return read_defaults(given_connection(ssh_conn_id))


def read_defaults(conn: Connection) -> ConfigDefaults:
    """The same of a connection at hand, of type `slurm` or `ssh`. Raises SlurmSettingsError for what is no text."""
    from airflow_gym_provider.hooks.settings import read_extras, text_extra

    conn_id = str(conn.conn_id)
    extra = read_extras(conn_id, conn.extra_dejson if conn.extra else {})
    values = {name: text_extra(conn_id, name, extra.get(name)) or None for name in _FILL}
    return ConfigDefaults(**values, source=f"connection {conn.conn_id!r}")
