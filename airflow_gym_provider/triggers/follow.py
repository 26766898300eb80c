"""Follows jobs from one look to the next: what is worth a line in the log, and when the waiting is over. Pure."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from airflow_gym_provider.slurm.progress import Progress
from airflow_gym_provider.slurm.states import State
from airflow_gym_provider.slurm.status import JobRef, JobStatus
from airflow_gym_provider.slurm.tails import TailNews
from airflow_gym_provider.slurm.waiting import cure_of
from airflow_gym_provider.triggers.events import EventReason, JobEvent, job_end, job_event
from airflow_gym_provider.triggers.observe import Observation

LOST_AFTER = 60.0
"""Seconds for which squeue and sacct must both answer and not know a job until it counts as lost."""
RUNAWAY_AFTER = 3600.0
"""The same for a job that accounting has as alive: slurmdbd may be that far behind slurmctld."""
_KNOWN_STATES = frozenset(map(str, State))
_PROGRESS_EVERY = 600.0
_LINES_BY_TENTHS = 10


@dataclass(frozen=True)
class Line:
    """One line for the task's log."""

    level: int
    text: str


def clock(seconds: int) -> str:
    """Seconds as "1-02:03:04", or "02:03:04" below a day."""
    days, rest = divmod(seconds, 86400)
    text = f"{rest // 3600:02}:{rest % 3600 // 60:02}:{rest % 60:02}"
    return f"{days}-{text}" if days else text


class JobFollower:
    """One job: its lines, and whether it has ended or is lost."""

    def __init__(self, ref: JobRef, lost_after: float) -> None:
        self.ref = ref
        self.status: JobStatus | None = None
        self.unknown_since: float | None = None
        self._lost_after = self._patience = lost_after
        self._said = ""
        self._unknown_said = False
        self._progress_at = float("-inf")
        self._tenth = -1
        self._done = -1

    @property
    def ended(self) -> bool:
        """Whether how it ended is known."""
        return self.status is not None and self.status.ending is not None

    def unknown_for(self, now: float) -> float:
        """Seconds for which Slurm has answered and not known it."""
        return 0.0 if self.unknown_since is None else now - self.unknown_since

    def lost(self, now: float) -> bool:
        """Whether that has been too long."""
        return self.unknown_since is not None and self.unknown_for(now) >= self._patience

    def see(self, status: JobStatus, progress: Progress | None, now: float) -> list[Line]:
        """Take in one look. `now` in seconds of any steady clock."""
        if not (status.missing or status.runaway):
            self.unknown_since, self._unknown_said = None, False
        else:
            self.unknown_since = now if self.unknown_since is None else self.unknown_since
            self._patience = max(self._lost_after, RUNAWAY_AFTER) if status.runaway else self._lost_after
            # accounting is often a little behind
            if not self._unknown_said and (status.missing or self.unknown_for(now) >= self._lost_after):
                self._unknown_said = True
                return [Line(logging.WARNING, self._unknown_text(status))]
        if not status.known:
            return []
        self.status = status
        line = self._state_line(status)
        if line is not None:
            self._progress_at = now
            return [line]
        return self._progress_lines(status, progress, now)

    def read(self, news: TailNews) -> list[Line]:
        """Take in what its log has to say."""
        if news.refused:
            text = (
                f"{news.tail.path} is not followed: {news.tail.job_script} does not list what would have to be hidden"
            )
            return [Line(logging.WARNING, text)]
        left_out = f" ({news.left_out} bytes before that are left out)" if news.left_out else ""
        return [Line(logging.INFO, f"{news.tail.path}{left_out}:\n{news.text}")] if news.text or left_out else []

    def _unknown_text(self, status: JobStatus) -> str:
        known = f"squeue, and {status.state} in accounting" if status.runaway else "squeue and sacct"
        return (
            f"job {self.ref.key} is unknown to {known} just now; "
            f"it counts as lost if that stays so for {self._patience:g} s"
        )

    def _state_line(self, status: JobStatus) -> Line | None:
        text = status.state
        waiting = status.live and status.state not in ("RUNNING", "COMPLETING")
        if waiting and status.reason:
            text += f" ({status.reason})"
        if text == self._said:
            return None
        self._said = text
        strange = status.live and status.state not in _KNOWN_STATES
        cure = cure_of(status.state, status.reason) if waiting else ""
        if cure:
            text += f": {cure}"
        elif strange:
            text += ": a state that this release does not know, so the job counts as alive"
        elif waiting and status.start_estimate:
            text += f", expected to start at {status.start_estimate}"
        elif status.state == "RUNNING" and status.nodes:
            text += f" on {status.nodes}"
        elif not status.live:
            text += f" after {clock(status.elapsed)}"
        return Line(logging.WARNING if cure or strange else logging.INFO, f"job {self.ref.key}: {text}")

    def _progress_lines(self, status: JobStatus, progress: Progress | None, now: float) -> list[Line]:
        if status.state != "RUNNING" or progress is None or not progress.expected or progress.done == self._done:
            return []
        tenth = _LINES_BY_TENTHS * progress.done // progress.expected
        if tenth == self._tenth and now - self._progress_at < _PROGRESS_EVERY:
            return []
        self._tenth, self._done, self._progress_at = tenth, progress.done, now
        text = f"RUNNING {clock(status.elapsed)} on {status.nodes} · {progress.done} of {progress.expected} rollouts"
        return [Line(logging.INFO, f"job {self.ref.key}: {text}")]


class Follower:
    """All jobs of one task. Says each outage once when it begins and once when it is over."""

    def __init__(self, refs: Sequence[JobRef], lost_after: float = LOST_AFTER) -> None:
        self._jobs = {ref.key: JobFollower(ref, lost_after) for ref in refs}
        self._trouble_since: float | None = None
        self._troubles: set[str] = set()
        self._late = ""

    def see(self, look: Observation, now: float) -> tuple[list[Line], JobEvent | None]:
        """Take in one look; the event when the waiting is over. `now` in seconds of any steady clock."""
        lines = self._trouble_lines(look, now)
        if look.late and not self._late:
            lines.append(Line(logging.WARNING, look.late))
        self._late = look.late
        if look.fatal is not None:
            return lines, job_event(EventReason.REFUSED, str(look.fatal))
        for key, job in self._jobs.items():
            status = look.statuses.get(key)
            if status is not None:
                lines += job.see(status, look.progress.get(key), now)
            if key in look.tails:
                lines += job.read(look.tails[key])
        return lines, self._event(now)

    def _event(self, now: float) -> JobEvent | None:
        jobs = list(self._jobs.values())
        if not all(job.ended or job.lost(now) for job in jobs):
            return None
        ends = [job_end(job.status) for job in jobs if job.status is not None]
        lost = [job for job in jobs if not job.ended]
        if lost:
            text = f"unknown to squeue and sacct: {', '.join(job.ref.key for job in lost)}"
            if self._troubles:
                text += f" ({'; '.join(sorted(self._troubles))})"
            return job_event(EventReason.LOST, text, ends, max(job.unknown_for(now) for job in lost))
        return job_event(EventReason.ENDED, jobs=ends)

    def _trouble_lines(self, look: Observation, now: float) -> list[Line]:
        new = [text for text in look.problems if text not in self._troubles]
        if look.problems:
            if self._trouble_since is None:
                self._trouble_since = now
            self._troubles.update(new)
            # one warning for an outage, however its words change from look to look
            if len(self._troubles) == len(new):
                text = "; ".join(new)
                return [Line(logging.WARNING, f"{text}. That says nothing about any job; still waiting")]
            return []
        if self._trouble_since is None:
            return []
        seconds, self._trouble_since, self._troubles = now - self._trouble_since, None, set()
        return [Line(logging.INFO, f"Slurm answers again after {clock(int(seconds))}")]
