"""How the static scripts beside this module and the data of one call become a RemoteScript's body."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from airflow_gym_provider.chain.errors import CutOffError, SlurmNotFoundError
from airflow_gym_provider.chain.identity import ChainKey, check_path
from airflow_gym_provider.chain.place import ChainPlace, Timing
from airflow_gym_provider.jobscript.quoting import quote
from airflow_gym_provider.slurm.accounting import SACCT_FIELDS
from airflow_gym_provider.slurm.commands import check_cluster
from airflow_gym_provider.slurm.queue import SQUEUE_FORMAT
from airflow_gym_provider.slurm.remote import Answer, Frames, RemoteScript
from airflow_gym_provider.slurm.tables import SEPARATOR
from airflow_gym_provider.slurm.troubles import TROUBLE


def program(
    scripts: Iterable[str], run: Mapping[str, str], clusters: Sequence[str], timing: Timing, calls: Iterable[str]
) -> str:
    """Functions, then settings, then calls: the body of a RemoteScript."""
    where = " ".join(quote(check_cluster(name)) for name in dict.fromkeys(clusters))
    general = {
        **run,
        "gym_separator": SEPARATOR,
        "gym_squeue_format": SQUEUE_FORMAT,
        "gym_sacct_format": ",".join(SACCT_FIELDS),
        "gym_trouble_lines": TROUBLE,
        "gym_lock_seconds": str(timing.lock),
        "gym_sbatch_seconds": str(timing.sbatch),
        "gym_query_seconds": str(timing.query),
        "gym_quiet_seconds": str(timing.quiet),
    }
    parts = [*(_script(name) for name in ("common", *scripts)), settings(general)]
    return "\n".join([*parts, f"gym_clusters=('' {where})", *calls])


def settings(values: Mapping[str, str]) -> str:
    """Assignments, each value one quoted word."""
    return "\n".join(f"{name}={quote(value)}" for name, value in values.items())


def run_settings(run_dir: str, key: ChainKey) -> dict[str, str]:
    """What scripts need to know of the run directory. Raises ValueError for a path that cannot be one."""
    return {"gym_run": check_path("job.output_path", run_dir), "gym_owner": key.owner()}


def place_settings(index: int, place: ChainPlace) -> dict[str, str]:
    """What scripts need to know of one benchmark, by shell variable. `index` (from 0) names it in the answer's frames.

    Raises as `check_path`, for a directory that no script can be given.
    """
    return {
        "gym_index": str(index),
        "gym_dir": check_path("job.output_path", place.job_dir),
        "gym_name": place.job_name,
        "gym_plain": place.plain_name,
    }


def whole(script: RemoteScript, answer: Answer) -> Frames:
    """The frames of an answer that arrived whole.

    Raises CutOffError when it did not, SlurmNotFoundError when there is no Slurm where the script ran.
    """
    frames = script.frames(answer.stdout)
    if frames.error:
        raise SlurmNotFoundError(frames.error)
    if not frames.complete:
        # Only the status: what a shell complains about may quote the script.
        raise CutOffError(f"the login node's answer ended early (exit status {answer.returncode})")
    return frames


@cache
def _script(name: str) -> str:
    return (Path(__file__).with_name("scripts") / f"{name}.sh").read_text(encoding="utf-8")
