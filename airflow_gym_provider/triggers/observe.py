"""One look at some jobs, as data: the same for a shared watcher and for a worker that waits by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from airflow_gym_provider.exceptions import SlurmTransportError
from airflow_gym_provider.slurm.progress import Progress
from airflow_gym_provider.slurm.remote import Answer, RemoteScript
from airflow_gym_provider.slurm.status import JobRef, JobStatus, parse_status, status_script
from airflow_gym_provider.slurm.troubles import ProblemKind


@dataclass(frozen=True)
class Observation:
    """What one look found, or why it found nothing.

    `statuses` and `progress` are keyed by `JobRef.key`. `answered`: squeue and sacct both gave an answer to rely on.
    `problems` are texts for people; `slow_down`: one of them asks us to call less often. `fatal`: looking again is no
    help.
    """

    statuses: Mapping[str, JobStatus] = field(default_factory=dict)
    progress: Mapping[str, Progress] = field(default_factory=dict)
    answered: bool = False
    problems: tuple[str, ...] = ()
    slow_down: bool = False
    fatal: SlurmTransportError | None = None

    @classmethod
    def failed(cls, error: SlurmTransportError, *, fatal: bool = False) -> Observation:
        """A look that did not reach Slurm."""
        return cls(problems=(str(error),), slow_down=True, fatal=error if fatal else None)


def look_request(refs: Sequence[JobRef], progress: Mapping[str, Progress], slurm_bin: str | None) -> RemoteScript:
    """The script of one look at `refs`."""
    return RemoteScript.build(status_script(refs, progress), slurm_bin=slurm_bin, needs=("squeue",))


def read_answer(
    script: RemoteScript, answer: Answer, refs: Sequence[JobRef], progress: Mapping[str, Progress]
) -> Observation:
    """What came back. Never raises: what was cut off stays unknown."""
    report = parse_status(refs, script.frames(answer.stdout), progress)
    # A site without accounting stays without: that is no trouble that passes, and squeue is asked as often as ever.
    passing = [problem for problem in report.problems if problem.kind is not ProblemKind.ACCOUNTING_DISABLED]
    return Observation(
        statuses=report.jobs,
        progress=report.progress,
        answered=report.squeue_ok and report.sacct_ok,
        problems=tuple(str(problem) for problem in report.problems),
        slow_down=bool(passing),
    )
