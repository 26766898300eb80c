"""How long to wait until the next look. Pure.

`poll_interval` is what a task asked for, the floor is the connection's. The wait is `poll_interval` as long as anything
may end without notice. It grows, by half with each look that brings nothing new and at most fourfold, only while no job
runs and every one is held or far from its start. It shrinks to a quarter, never below the floor, when a job has just
come, is between two states, or is about to end (by its walltime, or by its rollouts at their present rate). So the end
of a job that runs is seen after at most `poll_interval`; a scancel of one that waits after at most four.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from airflow_gym_provider.slurm.jobs import JobStatus
from airflow_gym_provider.slurm.states import State
from airflow_gym_provider.slurm.times import epoch

GROWTH = 1.5
MOST = 4.0
LONGEST_INTERVAL = 600.0
"""Seconds: no pause, after failures neither, is longer than this or a longer `poll_interval`."""
NOW = 0.0
_PARKED = re.compile(r"held|hold|dependency|begintime|reservation|maintenance", re.IGNORECASE)
_WAITED_SHARE = 0.1


@dataclass
class Outlook:
    """What is known of one job's future. All times in seconds of the event loop's clock.

    `since`: when it came or last changed; `ends_by`: its walltime; `rate`: rollouts per second; `counted_at`: when
    `left` rollouts were still to come.
    """

    since: float
    status: JobStatus | None = None
    ends_by: float | None = None
    starts_at: float | None = None
    rate: float = 0.0
    left: int = 0
    counted_at: float | None = None

    def change(self, status: JobStatus, now: float, clock: float | None) -> None:
        """Take in a status that is new. `clock`: seconds since 1970 on the login node, where estimates are made."""
        self.status, self.since = status, now
        running = status.state == State.RUNNING
        self.ends_by = now + status.time_limit - status.elapsed if running and status.time_limit else None
        estimate = epoch((status.start_estimate or "").rstrip("Z"))
        self.starts_at = None if estimate is None or clock is None else now + estimate - clock

    def count(self, done: int, expected: int, before: int, now: float) -> None:
        """Take in a count of rollouts; `before` is the last one."""
        if self.counted_at is not None and now > self.counted_at and done > before:
            rate = (done - before) / (now - self.counted_at)
            self.rate = rate if not self.rate else (self.rate + rate) / 2
        self.left, self.counted_at = max(0, expected - done), now

    def quiet_for(self, now: float, interval: float) -> float:
        """Seconds for which nothing is to be expected: NOW, `interval` when nothing is known, or more."""
        status = self.status
        if status is None or not status.known or not status.live or now - self.since < interval:
            return NOW
        if status.state == State.PENDING:
            return self._until_start(status, now, interval)
        if status.state != State.RUNNING:
            return interval if status.state == State.SUSPENDED else NOW
        rest = float("inf") if self.ends_by is None else self.ends_by - now
        if self.rate and self.counted_at is not None:
            rest = min(rest, self.left / self.rate - (now - self.counted_at))
        return min(rest, interval)

    def _until_start(self, status: JobStatus, now: float, interval: float) -> float:
        if _PARKED.search(status.reason):
            return float("inf")
        if self.starts_at is not None and self.starts_at > now:
            return self.starts_at - now
        return max(interval, (now - self.since) * _WAITED_SHARE)


def soonest(outlooks: Iterable[Outlook], now: float, interval: float, enough: float) -> float:
    """The least `quiet_for` of all; the first that is not above `enough`, when there is one."""
    least = float("inf")
    for outlook in outlooks:
        least = min(least, outlook.quiet_for(now, interval))
        if least <= enough:
            break
    return least


def next_wait(last: float, interval: float, floor: float, quiet: float, *, changed: bool) -> float:
    """Seconds to the next look. `last`: the last wait; `quiet`: the least `quiet_for` of all jobs."""
    if quiet < interval:
        return max(floor, interval / MOST)
    if changed:
        return interval
    longest = max(interval, min(MOST * interval, LONGEST_INTERVAL))
    return max(interval, min(max(last, interval) * GROWTH, longest, quiet / 2))
