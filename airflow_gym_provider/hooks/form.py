"""The form of a connection of type `slurm` in Airflow's UI, as data for get_provider_info. Imports nothing."""

from __future__ import annotations

from typing import Any

CONNECTION_TYPE = "slurm"
"""Airflow's name for our type of connection."""


def _text(label: str, description: str, **schema: Any) -> dict[str, Any]:
    return {"label": label, "description": description, "schema": {"type": ["string", "null"], **schema}}


def connection_type() -> dict[str, Any]:
    """The entry under `connection-types`, with `conn-fields` as provider.yaml.schema.json of Airflow 3.3 has them."""
    return {
        "connection-type": CONNECTION_TYPE,
        "hook-class-name": "airflow_gym_provider.hooks.slurm.SlurmHook",
        "hook-name": "Slurm",
        "conn-fields": _cluster_fields() | _login_fields(),
        "ui-field-behaviour": {
            "hidden-fields": ["schema"],
            "relabeling": {"host": "Login node", "login": "Username", "port": "SSH port"},
            "placeholders": {"host": "login.example.edu", "login": "me", "port": "22"},
        },
    }


def _cluster_fields() -> dict[str, Any]:
    return {
        "account": _text("Account", "Slurm account for configs without compute.<name>.account"),
        "partition": _text("Partition", "Slurm partition for node pools without one"),
        "output_path": _text("Output path", "Folder on the cluster for configs without job.output_path"),
        "poll_interval": {
            "label": "Poll interval",
            "description": "Shortest time between two status calls, in seconds; 30 unless given",
            "schema": {"type": ["integer", "null"], "minimum": 1},
        },
        "slurm_bin": _text("Slurm's commands", "Folder of sbatch there, when a login by ssh does not have it on PATH"),
        "login_profile": {
            "label": "Login profile",
            "description": "Take PATH and SLURM_CONF from /etc/profile and ~/.bash_profile there",
            "schema": {"type": ["boolean", "null"], "default": False},
        },
        "files_url": _text(
            "Files URL",
            "Where a browser shows a path of the cluster, for links on tasks: {path} stands for it, as in "
            "https://ondemand.example.edu/pun/sys/dashboard/files/fs{path}",
        ),
    }


def _login_fields() -> dict[str, Any]:
    """Those of the ssh provider's extras that most connections need; the others go into the extra JSON as there."""
    return {
        "key_file": _text("Key file", "Path of the private key on workers and triggerers"),
        # Several lines: a field of one line takes the breaks out of what is pasted, and the key is none any more.
        "private_key": _text("Private key", "Its text, instead of a file; not shown again", format="multiline"),
        "private_key_passphrase": _text("Passphrase", "Of the private key", format="password"),
        "host_key": _text("Host key", "The login node's public key, such as ssh-ed25519 AAAA…"),
        "no_host_key_check": {
            "label": "No host key check",
            "description": "Trust whatever answers: only where nobody else can",
            "schema": {"type": ["boolean", "null"], "default": False},
        },
    }
