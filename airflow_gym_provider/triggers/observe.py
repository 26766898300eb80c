"""One look at some jobs, as data: the same for a shared watcher and for a worker that waits by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_gym_provider.exceptions import SlurmAuthenticationError, SlurmSettingsError, SlurmTransportError
from airflow_gym_provider.hooks.slurm import SlurmHook
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


LOOK_TIMEOUT = 300.0


def look_request(refs: Sequence[JobRef], progress: Mapping[str, Progress], options: Mapping[str, Any]) -> RemoteScript:
    """The script of one look at `refs`; `options` as `SlurmHook.script_options`."""
    return RemoteScript.build(status_script(refs, progress), needs=("squeue",), **options)


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


def look_here(hook: SlurmHook, refs: Sequence[JobRef], progress: Mapping[str, Progress]) -> Observation:
    """One look from a worker. Never raises what the transport raises: an outage is an observation too."""
    script = look_request(refs, progress, hook.script_options)
    try:
        return read_answer(script, hook.run(script, LOOK_TIMEOUT), refs, progress)
    except (SlurmAuthenticationError, SlurmSettingsError) as err:
        return Observation.failed(err, fatal=True)
    except SlurmTransportError as err:
        return Observation.failed(err)


async def look_there(hook: SlurmHook, refs: Sequence[JobRef], progress: Mapping[str, Progress]) -> Observation:
    """As `look_here`, for an event loop. Whatever else goes wrong is an outage as well: nobody must hang on it."""
    try:
        await hook.aload()
        script = look_request(refs, progress, hook.script_options)
        return read_answer(script, await hook.arun(script, LOOK_TIMEOUT), refs, progress)
    except (SlurmAuthenticationError, SlurmSettingsError) as err:
        return Observation.failed(err, fatal=True)
    except SlurmTransportError as err:
        return Observation.failed(err)
    except Exception as err:  # a bug, or a secrets backend that is away: tasks that wait must hear of it
        return Observation.failed(SlurmTransportError(f"the status call failed: {type(err).__name__}: {err}"))
