"""The ``compute`` section: the one Slurm cluster a config runs on, and how its allocation is divided."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, field_validator

from airflow_gym_provider.config.directives import Directives
from airflow_gym_provider.config.durations import parse_duration
from airflow_gym_provider.config.fields import Count, CountOrZero, Duration, Line, StrictModel, VariableName, refuse

# user@host, an alias of ~/.ssh/config, an address; never an option of ssh.
_HOST = re.compile(r"[A-Za-z0-9_\[:][A-Za-z0-9_.:%@\[\]-]*\Z")
_CLUSTERS = ("clusters", "cluster")  # sbatch takes both
_CLUSTER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\Z")


class NodePool(StrictModel):
    """A named share of the allocation: a contiguous range of nodes in the order of declaration."""

    partition: Line
    nodes: Count = 1
    ntasks_per_node: Count = 1
    gpus_per_node: CountOrZero | None = None
    extra_args: Directives = Field(default_factory=dict)


class SlurmComputeConfig(StrictModel):
    """Where and as whom jobs are submitted. ``hostname: null`` runs ``sbatch`` on this machine."""

    type: Literal["slurm"]
    account: Line
    hostname: Line | None = None
    walltime: Duration | None = None
    forward_env: list[VariableName] = Field(default_factory=list)
    node_pools: dict[Line, NodePool] = Field(default_factory=dict)
    extra_args: Directives = Field(default_factory=dict)

    @property
    def walltime_seconds(self) -> int | None:
        """Return the job's time limit in seconds; None when the partition's default applies."""
        return None if self.walltime is None else parse_duration(self.walltime)

    @property
    def total_nodes(self) -> int:
        """Return the nodes of the allocation: the sum over the pools, or 1 when there are none."""
        return sum(pool.nodes for pool in self.node_pools.values()) or 1

    @property
    def named_clusters(self) -> tuple[str, ...]:
        """Return the clusters that `extra_args` sends the job to, where it has to be looked for as well."""
        extras = [self.extra_args, *(pool.extra_args for pool in self.node_pools.values())]
        named = [name.strip() for extra in extras for key in _CLUSTERS for name in extra.get(key, "").split(",")]
        return tuple(dict.fromkeys(name for name in named if _CLUSTER.match(name) and name != "all"))

    @field_validator("hostname")
    @classmethod
    def _is_host(cls, hostname: str | None) -> str | None:
        if hostname is not None and not _HOST.match(hostname):
            raise refuse(f"{hostname!r} is not a host name that ssh could be given")
        return hostname


ComputeConfig = Annotated[SlurmComputeConfig, Field()]
