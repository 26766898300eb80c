"""Where one benchmark of a run lives on the cluster, and what was seen there."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_gym_provider.chain.identity import ChainKey, check_path, job_name

if TYPE_CHECKING:
    from airflow_gym_provider.jobscript.run import ResultsSpec

TASK_FILE = ".gym_task"
"""In a benchmark's directory: which task of the run last asked for a job there, for a directory that tasks share."""
ASKED_FILE = ".gym_asked"
"""In a benchmark's directory: what the last job there was asked to evaluate. For whoever asked alone."""
_BENCHMARK = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True)
class ChainPlace:
    """One benchmark's directory and the name of its jobs; `results`: where its results are, when they matter.

    Make it with `at`, which checks what it is given.
    """

    benchmark: str
    job_dir: str
    job_name: str
    results: ResultsSpec | None = None

    @classmethod
    def at(cls, run_dir: str, benchmark: str, key: ChainKey, results: ResultsSpec | None = None) -> ChainPlace:
        """The place of `benchmark` below `run_dir`. Raises ValueError for a name or a path that cannot be one."""
        if not _BENCHMARK.fullmatch(benchmark) or benchmark in (".", ".."):
            raise ValueError(
                f"driver.benchmarks: {benchmark!r} is no benchmark name; use letters, digits, '.', '_', '-'"
            )
        job_dir = posixpath.join(check_path("job.output_path", run_dir), benchmark)
        return cls(benchmark, job_dir, job_name(benchmark, key), results)

    @property
    def plain_name(self) -> str:
        """The name in the job script itself, which a job has that somebody submitted by hand."""
        return f"gym-{self.benchmark}"


@dataclass(frozen=True)
class Seen:
    """The chain and the cancel marks as a decision saw them, but for carriage returns and the last line breaks.

    Given to a submission, which refuses when either is different by then. The default is what a new chain looks like.
    """

    chain: str = ""
    marks: str = ""


NEW_CHAIN = Seen()


@dataclass(frozen=True)
class Timing:
    """Bounds in seconds: waiting for a lock, one sbatch, one question to squeue or sacct, and `quiet`: how long after a
    submission that was cut off no job must have shown before another may be made.
    """

    lock: int = 20
    sbatch: int = 60
    query: int = 30
    quiet: int = 30


DEFAULT_TIMING = Timing()
