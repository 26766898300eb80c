"""Who a chain is: the same answer in every try, in every process, on every machine.

A chain's identity is a function of the DAG run and the task, never of the time or the try number, so that a retry after
a crash finds the directory and the job that the try before it made.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

MAX_JOB_NAME = 200
"""Longest job name we ask Slurm for. Slurm stores 1024 characters at most; accounting and people prefer less."""

_RUN_DIR = re.compile(r"/(gym-job-[0-9]{8}T[0-9]{6}Z-[0-9a-f]{6})/[^/]+/?$")


@dataclass(frozen=True)
class ChainKey:
    """What makes a chain this chain and no other.

    Benchmarks that share a run directory share one key: `group` is then the task group (or the task, when one task
    queues them all) and `map_index` stays -1. A mapped task with a run directory of its own gives its map index.
    `generation` is raised to start afresh in a new directory. `deployment` tells apart two Airflow installations that
    run the same DAG into the same output path.
    """

    dag_id: str
    run_id: str
    group: str
    map_index: int = -1
    generation: int = 0
    deployment: str = ""

    def owner(self) -> str:
        """The key as one line of JSON: what the owner file of the run directory holds."""
        return json.dumps(asdict(self), sort_keys=True)

    def digest(self, length: int, salt: str = "") -> str:
        """`length` hex digits (at most 64) of a SHA-256 that stand for this key (and `salt`)."""
        return hashlib.sha256(f"{self.owner()}\n{salt}".encode()).hexdigest()[:length]


def run_dir_name(key: ChainKey, stamp: datetime) -> str:
    """Name of the run directory: `gym-job-<YYYYMMDDTHHMMSSZ>-<6 hex>`.

    `stamp` has to be a property of the DAG run (such as the time it was made), for the name must be found again by a
    later try. A time without a zone is refused with a ValueError: it would mean another name on another machine.
    """
    if stamp.tzinfo is None:
        raise ValueError(f"the stamp of a run directory needs a time zone: {stamp.isoformat()} has none")
    return f"gym-job-{stamp.astimezone(UTC):%Y%m%dT%H%M%SZ}-{key.digest(6)}"


def is_elsewhere(work_dir: str, job_dir: str) -> bool:
    """Whether a job in `work_dir` is another chain's than that of `job_dir`, although it may have the same name: eight
    digits tell names apart, and whoever starts DAG runs may choose an id until they are those of another's job.

    It is when it lies in a run directory of another name. No more than that is compared: Slurm may know the way there
    under another. As `gym_elsewhere` of scripts/common.sh.
    """
    found = _RUN_DIR.search(work_dir)
    return found is not None and found[1] != posixpath.basename(posixpath.dirname(job_dir))


def run_dir(output_path: str, key: ChainKey, stamp: datetime) -> str:
    """Absolute path of the run directory on the cluster, below `output_path`. Raises ValueError for a path unfit."""
    return check_path("job.output_path", posixpath.join(output_path, run_dir_name(key, stamp)))


def check_path(place: str, path: str) -> str:
    """`path` as it is, or a ValueError naming `place`: it must be absolute and free of newlines and NUL.

    A newline would break every line-by-line file and table that Slurm and we keep (WorkDir in squeue, for one).
    """
    if not path.startswith("/"):
        raise ValueError(f"{place}: {path!r} is not an absolute path; begin it with '/'")
    if any(c in path for c in "\n\r\0"):
        raise ValueError(f"{place}: {path!r} holds a line break or NUL, which Slurm cannot carry; rename the directory")
    return path


def job_name(benchmark: str, key: ChainKey) -> str:
    """Slurm's name for every job of this chain: `gym-<benchmark>-<8 hex>`, at most 200 characters.

    The same for all tries; another run, another generation and another benchmark have another name, also when a long
    benchmark name had to be cut.
    """
    tail = "-" + key.digest(8, benchmark)
    return f"gym-{benchmark}"[: MAX_JOB_NAME - len(tail)] + tail
