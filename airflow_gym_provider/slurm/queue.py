"""squeue: what slurmctld knows of a job right now, with those that ended a few minutes ago (MinJobAge).

slurmctld is the authority on what lives: it knows of a job at once, of a requeued one that it waits, and of a pending
one why.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from airflow_gym_provider.jobscript.quoting import quote
from airflow_gym_provider.slurm.commands import command, command_here, id_list, name_list
from airflow_gym_provider.slurm.states import state_word
from airflow_gym_provider.slurm.tables import FOLDER, JOB_ID, SEPARATOR, TableShape, read_table, rests
from airflow_gym_provider.slurm.times import clock_seconds

__all__ = [
    "SQUEUE_FORMAT",
    "QueueRow",
    "parse_squeue",
    "squeue_by_name",
    "squeue_command",
    "squeue_of_ids",
    "squeue_of_user",
    "squeue_rests",
]

SQUEUE_FORMAT = SEPARATOR.join(["%i", "%T", "%M", "%l", "%S", "%V", "%N", "%r", "%Z", "%j", "%i"])
"""The columns we ask for; the repeated id shows that a row is whole."""
_STEADY_FORMAT = SEPARATOR.join(["%i", "%T", "%l", "%S", "%V", "%N", "%r", "%Z", "%j", "%i"])

# Without it squeue leaves out the jobs of hidden partitions (Hidden=YES, or AllowGroups that the login has left) unless
# their ids are given: a job that lives there would look like none.
_HIDDEN_TOO = "--all"

_SHAPE = TableShape(
    typed={"jobid": JOB_ID, "state": re.compile(r"\w*\+?"), "work_dir": FOLDER},
    free=("reason", "work_dir", "name"),
)
_NOTHING = ("", "N/A", "(null)", "None")


@dataclass(frozen=True)
class QueueRow:
    """One job, or one part of a heterogeneous job ("10+1"), as slurmctld sees it.

    `state` is a word of `states.State`, or the unknown word as it came. `elapsed` is in seconds, of the present attempt
    alone; `time_limit` in seconds, None when unlimited. `start_estimate` of a pending job and `submit` are text (UTC
    when our command asked), None when not known. `reason` says why a job waits, "" when there is none.
    """

    job_id: str
    state: str
    reason: str = ""
    nodes: str = ""
    elapsed: int = 0
    time_limit: int | None = None
    start_estimate: str | None = None
    submit: str | None = None
    work_dir: str = ""
    name: str = ""

    @property
    def base_id(self) -> str:
        """The id that sbatch answered: "10" of "10+1"."""
        return self.job_id.split("+")[0].split("_")[0]


def parse_squeue(text: str) -> list[QueueRow]:
    """The jobs in what squeue printed with a header, in its order. Never raises; lines that are no whole rows are left
    out.
    """
    return [_row(cells) for cells in read_table(text, _SHAPE)]


def squeue_rests(text: str) -> list[str]:
    """What is left of rows in a damaged answer to one of our own commands; none in a whole one."""
    return rests(text, _SHAPE)


def squeue_command(ids: Sequence[str], cluster: str | None = None) -> str:
    """One squeue for these job ids, as bash words; ended ones included while slurmctld remembers them.

    For a single id that it does not know squeue exits 1 with "Invalid job id specified": a good answer, see
    `troubles.squeue_problem`. Chunk ids with `commands.chunks`. Raises ValueError for what cannot be an id or a
    cluster.
    """
    return _squeue(cluster, f"--jobs={id_list(ids)}")


def squeue_by_name(names: Sequence[str], cluster: str | None = None) -> str:
    """One squeue for jobs of these names, of any user, as bash words; ended ones included while they are remembered."""
    return _squeue(cluster, f"--name={name_list(names)}")


def squeue_of_ids(word: str, cluster: str | None = None) -> str:
    """As `squeue_command` for the ids in a bash word such as '"$1"'."""
    return _squeue(cluster, f"--jobs={word}")


def squeue_of_user(cluster: str | None = None) -> str:
    """One squeue for the live jobs of whoever runs it, as bash words for a shell whose TZ is UTC0: slurmctld sends no
    other's. It prints the same for as long as no job changes: without the time that each has run, in the order of ids.
    """
    options = [f"--format={quote(_STEADY_FORMAT)}", "--sort=i", '--user="$EUID"']
    return command_here("squeue", cluster, [_HIDDEN_TOO, *options])


def _squeue(cluster: str | None, selection: str) -> str:
    return command("squeue", cluster, [_HIDDEN_TOO, "--states=all", f"--format={quote(SQUEUE_FORMAT)}", selection])


def _row(cells: dict[str, str]) -> QueueRow:
    def text(column: str) -> str:
        cell = cells.get(column, "")
        return "" if cell in _NOTHING else cell

    return QueueRow(
        job_id=cells["jobid"],
        state=state_word(cells.get("state", "")),
        reason=text("reason"),
        nodes=text("nodelist"),
        elapsed=clock_seconds(cells.get("time", "")) or 0,
        time_limit=clock_seconds(cells.get("time_limit", "")),
        start_estimate=text("start_time") or None,
        submit=text("submit_time") or None,
        work_dir=cells.get("work_dir", ""),
        name=cells.get("name", ""),
    )
