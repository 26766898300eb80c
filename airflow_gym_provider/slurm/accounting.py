"""sacct: what Slurm's accounting remembers of a job, long after the job is gone.

Accounting lags by seconds, forgets nothing by itself, keeps one record for every time a job was requeued, and shows a
row for every step beside the job's own. The job's row decides; steps are detail (a service's step is always CANCELLED
when a job ends well).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from airflow_gym_provider.jobscript.quoting import quote
from airflow_gym_provider.slurm.commands import command, id_list, name_list
from airflow_gym_provider.slurm.states import Ending, cancelled_by, ending_of, state_word
from airflow_gym_provider.slurm.tables import FOLDER, JOB_ID, SEPARATOR, TableShape, read_table, rests
from airflow_gym_provider.slurm.times import utc_text

__all__ = [
    "SACCT_FIELDS",
    "JobRow",
    "StepRow",
    "parse_sacct",
    "sacct_by_name",
    "sacct_command",
    "sacct_of_ids",
    "sacct_rests",
]

SACCT_FIELDS = (
    "JobID",
    "State",
    "ExitCode",
    "DerivedExitCode",
    "ElapsedRaw",
    "Submit",
    "Start",
    "End",
    "Cluster",
    "Reason",
    "NodeList",
    "WorkDir",
    "JobName",
    "JobID",
)
"""The columns we ask for: all exist from Slurm 20 to 25 under these names; the repeated id shows that a row is
whole.
"""

_CODE = re.compile(r"(?:\d+:\d+)?")
_SHAPE = TableShape(
    typed={
        "jobid": JOB_ID,
        "state": re.compile(r"\w*\+?(?: .*)?"),
        "exitcode": _CODE,
        "derivedexitcode": _CODE,
        "elapsedraw": re.compile(r"\d*"),
        "workdir": FOLDER,
    },
    free=("reason", "workdir", "jobname"),
    unnamed=("jobid", "state", "exitcode", "elapsedraw"),
)


@dataclass(frozen=True)
class StepRow:
    """One step of a job: `step` is "batch", "extern" or a number; codes are None when the cell was empty."""

    job_id: str
    step: str
    state: str
    exit_code: int | None
    signal: int | None
    elapsed: int

    @property
    def failed(self) -> bool:
        """Whether the step went wrong by itself; one that was ended with its job (CANCELLED) did not."""
        return ending_of(self.state) not in (None, Ending.COMPLETED, Ending.CANCELLED)

    def __str__(self) -> str:
        code = "" if self.exit_code is None else f" {self.exit_code}:{self.signal}"
        return f"step {self.job_id}.{self.step} {self.state}{code}"


@dataclass(frozen=True)
class JobRow:
    """One record of one job (a requeued job has several), or of one part of a heterogeneous job ("10+1").

    `state` is a word of `states.State`, or the unknown word as it came. `elapsed` is in seconds, of this record alone.
    Times are text as sacct printed them (UTC when our command asked), None when not known. `exit_code` and `signal` are
    None when the cell was empty, as after a node failure.
    """

    job_id: str
    state: str
    cluster: str | None = None
    cancelled_by: int | None = None
    exit_code: int | None = None
    signal: int | None = None
    derived_exit_code: int | None = None
    elapsed: int = 0
    submit: str | None = None
    start: str | None = None
    end: str | None = None
    reason: str = ""
    nodes: str = ""
    work_dir: str = ""
    name: str = ""
    steps: tuple[StepRow, ...] = ()

    @property
    def base_id(self) -> str:
        """The id that sbatch answered: "10" of "10+1"."""
        return self.job_id.split("+")[0].split("_")[0]


def parse_sacct(text: str) -> list[JobRow]:
    """The jobs in what sacct printed, in its order, each with its steps. Never raises.

    Reads `sacct -P` with a header in any order of columns (the id first), and without one the four columns
    JobID|State|ExitCode|ElapsedRaw. Banners, rows cut short and steps whose job has no row are left out. Several
    records of one id (requeued, or an id that was used twice) give several rows.
    """
    jobs: list[JobRow] = []
    steps: list[list[StepRow]] = []
    latest: dict[str, int] = {}
    early: dict[str, list[StepRow]] = {}
    for cells in read_table(text, _SHAPE):
        step = _step(cells)
        if step is None:
            job = _job(cells)
            latest[job.job_id] = len(jobs)
            jobs.append(job)
            steps.append(early.pop(job.job_id, []))
        elif step.job_id in latest:
            steps[latest[step.job_id]].append(step)
        else:  # rows may come in any order
            early.setdefault(step.job_id, []).append(step)
    return [replace(job, steps=tuple(own)) for job, own in zip(jobs, steps, strict=True)]


def sacct_rests(text: str) -> list[str]:
    """What is left of rows in a damaged answer to one of our own commands; none in a whole one."""
    return rests(text, _SHAPE)


def sacct_command(ids: Sequence[str], cluster: str | None = None) -> str:
    """One sacct for these job ids, as bash words: every record, every step, however old. Chunk ids with
    `commands.chunks`.

    Raises ValueError for an id or a cluster that cannot be one.
    """
    return _sacct(cluster, f"--jobs={id_list(ids)}")


def sacct_of_ids(word: str, cluster: str | None = None) -> str:
    """As `sacct_command` for the ids in a bash word such as '"$1"'."""
    return _sacct(cluster, f"--jobs={word}")


def sacct_by_name(names: Sequence[str], since: float, cluster: str | None = None) -> str:
    """One sacct for jobs of these names submitted or running after `since` (seconds since 1970), as bash words.

    Accounting never shows a held job by name, nor one of the last seconds: ask squeue first.
    """
    return _sacct(cluster, f"--name={name_list(names)}", f"--starttime={utc_text(since)}")


def _sacct(cluster: str | None, *selection: str) -> str:
    options = ["--parsable2", "--duplicates", f"--format={','.join(SACCT_FIELDS)}", *selection]
    return command("sacct", cluster, [f"--delimiter={quote(SEPARATOR)}", *options])


def _job(cells: dict[str, str]) -> JobRow:
    exit_code, signal = _codes(cells.get("exitcode", ""))
    return JobRow(
        job_id=cells["jobid"],
        state=state_word(cells.get("state", "")),
        cluster=cells.get("cluster") or None,
        cancelled_by=cancelled_by(cells.get("state", "")),
        exit_code=exit_code,
        signal=signal,
        derived_exit_code=_codes(cells.get("derivedexitcode", ""))[0],
        elapsed=int(cells.get("elapsedraw") or 0),
        submit=_time(cells.get("submit")),
        start=_time(cells.get("start")),
        end=_time(cells.get("end")),
        reason=_word(cells.get("reason", "")),
        nodes=_word(cells.get("nodelist", "")),
        work_dir=cells.get("workdir", ""),
        name=cells.get("jobname", ""),
    )


def _step(cells: dict[str, str]) -> StepRow | None:
    """The step a row speaks of; None for the row of a job itself."""
    job_id, _, step = cells["jobid"].partition(".")
    if not step:
        return None
    exit_code, signal = _codes(cells.get("exitcode", ""))
    elapsed = int(cells.get("elapsedraw") or 0)
    return StepRow(job_id, step, state_word(cells.get("state", "")), exit_code, signal, elapsed)


def _codes(cell: str) -> tuple[int | None, int | None]:
    exit_code, _, signal = cell.partition(":")
    return (int(exit_code), int(signal)) if signal else (None, None)


def _time(cell: str | None) -> str | None:
    return None if cell in (None, "", "Unknown", "None", "N/A") else cell


def _word(cell: str) -> str:
    return "" if cell in ("None", "None assigned", "(null)", "N/A") else cell
