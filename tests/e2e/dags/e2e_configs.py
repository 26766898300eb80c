"""Submit configs for the cluster of docker/cluster.sh: one node without GPUs, no model service."""

import os
from pathlib import Path
from typing import Any

FOLDER = Path(os.environ.get("GYM_E2E_FOLDER", "/nowhere"))
CLUSTER = "gym_cluster"
# Seconds. A task that is resumed before the scheduler has taken note of its deferral is tried again by Airflow. And in
# its first five seconds a job may be called "allocation" by accounting, which slurmctld has not sent the rest yet.
LONG_ENOUGH = 8


def config(**benchmarks: dict[str, Any]) -> dict[str, Any]:
    """A config with these benchmarks."""
    return {
        "services": {},
        "compute": {
            "slurm": {
                "type": "slurm",
                "account": "eval",
                "walltime": "00:20:00",
                "node_pools": {"main": {"partition": "debug"}},
            }
        },
        "driver": {"container": "gym:stand-in", "benchmarks": benchmarks},
        "job": {"output_path": str(FOLDER / "runs")},
        "otel": {"enabled": False},
    }


def rollouts(limit: int, *, after: int | None = None, code: int = 1, **section: Any) -> dict[str, Any]:
    """A benchmark of `limit` questions; each job ends with `code` after so many answers, if `after` is given."""
    standin: dict[str, Any] = {"startup_seconds": LONG_ENOUGH}
    if after is not None:
        standin |= {"exit_after": after, "exit_code": code}
    return {"run": {"config_paths": ["benchmarks/e2e/config.yaml"], "limit": limit, "standin": standin}, **section}


def waiting(name: str, limit: int = 3, **section: Any) -> dict[str, Any]:
    """A benchmark of `limit` questions whose jobs answer one each and go on when the test opens this gate.

    No failure is allowed to it, so that none can go unnoticed.
    """
    found = rollouts(limit, resumable={"max_retries": 0}, **section)
    found["run"]["standin"] |= {"gate": f"{FOLDER}/gates/{name}", "gate_after": 1}
    return found


def on_node(
    configured: dict[str, Any], node: str, partition: str = "debug", gpus: int = 8, **extra: Any
) -> dict[str, Any]:
    """The same config with its job on this node, all of whose GPUs it takes."""
    slurm = configured["compute"]["slurm"]
    slurm["node_pools"] = {"main": {"partition": partition, "gpus_per_node": gpus}}
    slurm["extra_args"] = {"nodelist": node, **extra}
    return configured


def command(*lines: str) -> dict[str, Any]:
    """A benchmark with a command of its own."""
    return {"command": "\n".join(lines)}


def gate(name: str) -> dict[str, Any]:
    """A benchmark that is done when the test opens this gate."""
    return command(f"until [ -e '{FOLDER}/gates/{name}' ]; do sleep 0.5; done")


def command_at_gate(name: str, *lines: str) -> dict[str, Any]:
    """A benchmark with a command of its own that begins when the test opens this gate."""
    return command(gate(name)["command"], *lines)
