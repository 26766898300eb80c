"""A chain's timeline: its jobs from submission to end, and how much of its budget they used. Pure.

Two XComs are read: `gym_chain`, which the task leaves whenever it has looked at the cluster, and `gym_live`, which the
trigger leaves while it waits. Times are seconds since 1970 (UTC), durations seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from airflow_gym_provider import xcom_keys
from airflow_gym_provider.results.numbers import is_number

_GREEN, _LIVE = (
    frozenset({"COMPLETED"}),
    frozenset({"", "PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED"}),
)
_BEYOND = 10**15
_ON = frozenset({"TIMEOUT", "PREEMPTED", "NODE_FAIL"})


@dataclass(frozen=True)
class JobSpan:
    """One Slurm job. `start` and `end` are None until they are known; `ran` is what Slurm counts as run time."""

    job_id: str
    state: str
    submit: float | None = None
    start: float | None = None
    end: float | None = None
    ran: int = 0
    nodes: str = ""
    exit_code: int | None = None
    reason: str = ""
    counted: bool = True

    @property
    def live(self) -> bool:
        """Whether it waits or runs, as far as is known."""
        return self.state in _LIVE and self.end is None

    @property
    def light(self) -> str:
        """green, red, on (ended, and the chain goes on after it) or live."""
        if self.live:
            return "live"
        return "green" if self.state in _GREEN else "on" if self.state in _ON else "red"

    def queued(self, now: float) -> float | None:
        """Seconds for which it waited, or has waited until `now` (seconds since 1970); None without a submission."""
        if self.submit is None:
            return None
        until = self.start if self.start is not None else self.end if self.end is not None else now
        return max(0.0, until - self.submit)

    def running(self, now: float) -> float:
        """Seconds for which it ran, or has run until `now` (seconds since 1970)."""
        if self.live and self.start is not None:
            return max(0.0, now - self.start)
        return float(self.ran)


@dataclass(frozen=True)
class ChainView:
    """All jobs of a chain, oldest first, and its budget; a bound of None means that there is none."""

    jobs: tuple[JobSpan, ...] = ()
    used: int = 0
    max_walltime: int | None = None
    walltime: int | None = None
    retries: int = 0
    max_retries: int | None = None
    resumable: bool = False
    reason: str = ""
    left_out: int = 0
    done: int | None = None
    expected: int | None = None

    def used_at(self, now: float) -> float:
        """Seconds of walltime used of this budget until `now` (seconds since 1970), the running job's included."""
        total = sum(job.running(now) for job in self.jobs if job.counted)
        return max(float(self.used), total)

    def window(self, now: float) -> tuple[float, float]:
        """Seconds since 1970 of the first submission and of the last end, or `now` while a job lives; never empty."""
        begins = [moment for job in self.jobs for moment in (job.submit, job.start) if moment is not None]
        ends = [job.end for job in self.jobs if job.end is not None] + [now for job in self.jobs if job.live]
        first = min(begins, default=now)
        return first, max([*ends, first + 1])


def read_chain(xcoms: Mapping[str, Any]) -> ChainView:
    """The chain from the XComs of its task: `gym_chain`, `gym_live`, and `return_value` or `gym_job` without them."""
    chain = _mapping(xcoms.get(xcom_keys.CHAIN))
    result = {**_mapping(xcoms.get(xcom_keys.JOB)), **_mapping(xcoms.get(xcom_keys.RESULT))}
    base = _number(chain.get("base")) or 0
    jobs = [_span(job, at >= base) for at, job in enumerate(_list(chain.get("jobs"))) if isinstance(job, Mapping)]
    view = ChainView(
        tuple(jobs) or _known_jobs(result),
        used=_number(chain.get("used")) or _number(result.get("chain_elapsed_seconds")) or 0,
        max_walltime=_number(chain.get("max_walltime")),
        walltime=_number(chain.get("walltime")),
        retries=_number(chain.get("retries")) or 0,
        max_retries=_number(chain.get("max_retries")),
        resumable=bool(chain.get("resumable")),
        reason=_text(chain.get("reason")),
        left_out=_number(chain.get("left_out")) or 0,
        done=_number(result.get("rollouts_done")),
        expected=_number(result.get("rollouts_expected")),
    )
    return _with_live(view, _mapping(xcoms.get(xcom_keys.LIVE)))


def _with_live(view: ChainView, live: Mapping[str, Any]) -> ChainView:
    """What the trigger saw last, for the job that it waits for; of another one it says nothing."""
    if not view.jobs or view.jobs[-1].job_id != _text(live.get("job_id")) or not view.jobs[-1].live:
        return view
    job, at, elapsed = view.jobs[-1], _number(live.get("at")), _number(live.get("elapsed")) or 0
    state = _text(live.get("state")).split(" ")[0]
    begun = state not in ("", "PENDING") and at is not None
    start = at - elapsed if at is not None and begun else job.start
    ended = bool(live.get("ended")) and at is not None
    job = replace(
        job,
        state=state,
        start=start,
        end=float(at) if ended and at is not None else None,
        ran=elapsed,
        nodes=_text(live.get("nodes")) or job.nodes,
        reason=_text(live.get("reason")),
    )
    done, expected = _number(live.get("done")), _number(live.get("expected"))
    return replace(view, jobs=(*view.jobs[:-1], job), done=done or view.done, expected=expected or view.expected)


def _known_jobs(result: Mapping[str, Any]) -> tuple[JobSpan, ...]:
    """Jobs without times: all that a task of an older release left."""
    ids, states = _list(result.get("job_ids")), _list(result.get("job_states"))
    if not ids and _text(result.get("job_id")):
        ids = [result["job_id"]]
    states = [*states, *[""] * (len(ids) - len(states))]
    return tuple(JobSpan(str(job), str(state)) for job, state in zip(ids, states, strict=False))


def _span(job: Mapping[str, Any], counted: bool) -> JobSpan:
    ran = _number(job.get("elapsed")) or 0
    return JobSpan(
        _text(job.get("id")),
        _text(job.get("state")),
        _moment(job.get("submit")),
        _moment(job.get("start")),
        _moment(job.get("end")),
        ran,
        _text(job.get("nodes")),
        _number(job.get("exit_code")),
        _text(job.get("reason")),
        counted,
    )


def _moment(value: object) -> float | None:
    """Slurm's text (UTC, as our commands ask for it) or seconds since 1970."""
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return None
        return moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()
    number = _number(value)
    return float(number) if number else None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object) -> int | None:
    """A whole number; None for what is none, and for what no clock and no chain comes to."""
    return int(value) if is_number(value) and abs(value) < _BEYOND else None
