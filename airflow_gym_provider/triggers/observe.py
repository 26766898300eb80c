"""One look at some jobs, as data: the same for a shared watcher and for a worker that waits by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_gym_provider.exceptions import SlurmAuthenticationError, SlurmSettingsError, SlurmTransportError
from airflow_gym_provider.hooks.slurm import SlurmHook
from airflow_gym_provider.slurm.progress import Progress, files_late, parse_progress, progress_body
from airflow_gym_provider.slurm.remote import Answer, RemoteScript
from airflow_gym_provider.slurm.status import JobRef, JobStatus, parse_status, status_script
from airflow_gym_provider.slurm.tails import LogTail, TailNews, read_tails, tails_body
from airflow_gym_provider.slurm.troubles import Problem, ProblemKind

_LASTING = (ProblemKind.ACCOUNTING_DISABLED, ProblemKind.UNKNOWN_CLUSTER)


@dataclass(frozen=True)
class Observation:
    """What one look found, or why it found nothing.

    `statuses`, `progress` and `tails` are keyed by `JobRef.key`; a look at many jobs leaves out what has not changed.
    `clock`: seconds since 1970 on the login node. `answered`: squeue and sacct both gave an answer to rely on.
    `late`: what files could not be read in time, for people. `problems` are texts for people; `slow_down`: one of them
    asks us to call less often. `fatal`: looking again is no help.
    """

    statuses: Mapping[str, JobStatus] = field(default_factory=dict)
    progress: Mapping[str, Progress] = field(default_factory=dict)
    tails: Mapping[str, TailNews] = field(default_factory=dict)
    answered: bool = False
    problems: tuple[str, ...] = ()
    late: str = ""
    slow_down: bool = False
    fatal: SlurmTransportError | None = None
    clock: float | None = None

    @property
    def reached(self) -> bool:
        """Whether the login node answered at all, Slurm aside."""
        return self.clock is not None or bool(self.statuses)

    def after(self, earlier: Observation) -> Observation:
        """This look and what an earlier one found that this one has left out."""
        return replace(
            self,
            statuses={**earlier.statuses, **self.statuses},
            progress={**earlier.progress, **self.progress},
            tails={**earlier.tails, **self.tails},
        )

    @classmethod
    def failed(cls, error: SlurmTransportError, *, fatal: bool = False) -> Observation:
        """A look that did not reach Slurm."""
        return cls(problems=(str(error),), slow_down=True, fatal=error if fatal else None)


LOOK_TIMEOUT = 300.0


def look_request(
    refs: Sequence[JobRef],
    progress: Mapping[str, Progress],
    options: Mapping[str, Any],
    tails: Mapping[str, LogTail] | None = None,
) -> RemoteScript:
    """The script of one look at `refs`; `options` as `SlurmHook.script_options`."""
    body = "\n".join(filter(None, [status_script(refs), progress_body(progress), tails_body(tails or {})]))
    return RemoteScript.build(body, needs=("squeue",), **options)


def read_answer(
    script: RemoteScript,
    answer: Answer,
    refs: Sequence[JobRef],
    progress: Mapping[str, Progress],
    tails: Mapping[str, LogTail] | None = None,
) -> Observation:
    """What came back. Never raises: what was cut off stays unknown."""
    frames = script.frames(answer.stdout)
    report = parse_status(refs, frames)
    problems, slow_down = problems_of(report.problems)
    return Observation(
        statuses=report.jobs,
        progress=parse_progress(progress, frames),
        tails=read_tails(tails or {}, frames),
        answered=report.squeue_ok and report.sacct_ok,
        problems=problems,
        late=files_late(frames),
        slow_down=slow_down,
    )


def problems_of(found: Sequence[Problem]) -> tuple[tuple[str, ...], bool]:
    """Texts for people, each once, and whether to ask less often.

    A site without accounting stays without, and a cluster that nobody knows is one task's mistake: those are no trouble
    that passes, and squeue is asked as often as ever, for all the others.
    """
    texts = tuple(dict.fromkeys(map(str, found)))
    return texts, any(problem.kind not in _LASTING for problem in found)


def look_here(
    hook: SlurmHook,
    refs: Sequence[JobRef],
    progress: Mapping[str, Progress],
    tails: Mapping[str, LogTail] | None = None,
) -> Observation:
    """One look from a worker. Never raises what the transport raises: an outage is an observation too."""
    script = look_request(refs, progress, hook.script_options, tails)
    try:
        return read_answer(script, hook.run(script, LOOK_TIMEOUT), refs, progress, tails)
    except (SlurmAuthenticationError, SlurmSettingsError) as err:
        return Observation.failed(err, fatal=True)
    except SlurmTransportError as err:
        return Observation.failed(err)
