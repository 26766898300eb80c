"""A job in sbatch's own notation: "60", or "60;c2" when it is on a named cluster. Joined and parted nowhere else.

Nothing is checked here; `check_id` and `check_cluster` of `slurm.commands` do that.
"""

from __future__ import annotations

__all__ = ["cluster_of", "job_key", "number_of"]


def job_key(number: str, cluster: str | None = None) -> str:
    """The key of a job."""
    return f"{number};{cluster}" if cluster else number


def number_of(key: str) -> str:
    """The job's number, which is what it is called in file names and on its own cluster."""
    return key.partition(";")[0].strip()


def cluster_of(key: str) -> str | None:
    """The cluster that the key names; None when it names none."""
    return key.partition(";")[2].strip() or None
