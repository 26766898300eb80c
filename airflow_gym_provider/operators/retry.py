"""How an exception of ours becomes Airflow's decision about the next try, with a reason that a person can read.

Airflow asks a retry policy in the worker for every failure, after a deferral too, but never beyond the task's
`retries`. So the operators have practically endless `retries`, and this policy draws the line where the config does.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk.definitions.retry_policy import RetryDecision, RetryPolicy
from airflow.sdk.exceptions import AirflowNotFoundException, AirflowTaskTimeout

from airflow_gym_provider.chain.errors import (
    BusyError,
    ChainError,
    CutOffError,
    ForeignDirectoryError,
    SlurmNotFoundError,
)
from airflow_gym_provider.exceptions import (
    ChainRetry,
    ChainStopped,
    SlurmAnswerCutError,
    SlurmAuthenticationError,
    SlurmSettingsError,
    SlurmShellError,
    SlurmUnknownHostError,
    SlurmUnreachableError,
)
from airflow_gym_provider.operators._failure import without_secrets
from airflow_gym_provider.operators._memory import ChainMemory

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

_PEOPLE_MUST_ACT = (
    ChainStopped,
    SlurmSettingsError,
    SlurmAuthenticationError,
    SlurmNotFoundError,
    ForeignDirectoryError,
)
# What may pass by itself, and does not when it is a mistake. The words are ours, or Airflow's about a connection that
# it does not find: its name is wrong, or a secrets backend is away.
_FOR_A_WHILE = (SlurmUnknownHostError, SlurmShellError, ChainError, AirflowNotFoundException)
_PASSING = (SlurmUnreachableError, SlurmAnswerCutError, CutOffError, BusyError)

ENDLESS = 10_000
MAX_UNEXPECTED = 5
_FIRST_DELAY = 15.0
_LONGEST_DELAY = 600.0


def backoff(count: int) -> float:
    """Seconds before try `count` (from 1) of something that was refused for now: 15, 30, 60 … 600."""
    return min(_FIRST_DELAY * 2.0 ** min(count - 1, 10), _LONGEST_DELAY)


class ChainRetryPolicy(RetryPolicy):
    """Retries what the chain goes on with and what passes by itself; fails what people must look at.

    Outages and refusals "for now" cost none of the benchmark's `max_retries` and are waited for with growing delays,
    without end. What nobody foresaw is tried 5 times between two clears of the task.
    """

    def evaluate(
        self, exception: BaseException, try_number: int, max_tries: int, context: Context | None = None
    ) -> RetryDecision:
        """Airflow's question after a failure; see the class. It stores the reason, so no secret is in it."""
        decision = self._decide(exception, context)
        return replace(decision, reason=without_secrets(decision.reason or ""))

    def _decide(self, exception: BaseException, context: Context | None) -> RetryDecision:
        if isinstance(exception, ChainRetry):
            return self._again(exception, context)
        if isinstance(exception, ForeignDirectoryError) and _never_was_ours(context):
            return RetryDecision.fail(
                f"{exception}. Or clear the task: it has had no job there, so that takes a directory of another name"
            )
        if isinstance(exception, _PEOPLE_MUST_ACT):
            return RetryDecision.fail(str(exception))
        if isinstance(exception, AirflowTaskTimeout):
            return RetryDecision.fail("execution_timeout is over; its Slurm job has been cancelled")
        if isinstance(exception, _PASSING) and not isinstance(exception, (SlurmUnknownHostError, SlurmShellError)):
            return self._passing(str(exception), context)
        return self._unexpected(exception, context)

    @staticmethod
    def _again(exception: ChainRetry, context: Context | None) -> RetryDecision:
        if exception.passing:
            return ChainRetryPolicy._passing(exception.reason, context)
        _ended_by_itself(context)
        if exception.delay is None:
            return RetryDecision.retry(reason=exception.reason)
        return RetryDecision.retry(timedelta(seconds=exception.delay), exception.reason)

    @staticmethod
    def _passing(reason: str, context: Context | None) -> RetryDecision:
        count = _count(context, "outages")
        return RetryDecision.retry(timedelta(seconds=backoff(count)), f"{reason}; trying again, no retry counted")

    @staticmethod
    def _unexpected(exception: BaseException, context: Context | None) -> RetryDecision:
        count = _count(context, "unexpected")
        # a stranger's words may hold anything
        what = str(exception) if isinstance(exception, _FOR_A_WHILE) else f"unexpected {type(exception).__name__}"
        text = f"{what}, no. {count}"
        if count >= MAX_UNEXPECTED:
            return RetryDecision.fail(f"{text}: giving up; clear the task to go on with the same chain")
        return RetryDecision.retry(timedelta(seconds=backoff(count)), f"{text} of {MAX_UNEXPECTED}")

    def serialize(self) -> dict[str, Any]:
        """It has no settings."""
        return {"__type": type(self).__name__}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> ChainRetryPolicy:
        """See `serialize`."""
        return cls()


def _count(context: Context | None, counter: str) -> int:
    """One more of them, remembered for the next try; 1 when there is nothing to remember it in."""
    if context is None:
        return 1
    memory = ChainMemory.of(context)
    count: int = getattr(memory, counter) + 1
    setattr(memory, counter, count)
    memory.starts = 0
    memory.save()
    return count


def _never_was_ours(context: Context | None) -> bool:
    """Whether no job of the chain was ever known in what is somebody else's directory. Remembered for a clear, which
    may then look for another: of a chain that has had one, the job may live on in a directory that is damaged.
    """
    memory = None if context is None else ChainMemory.of(context)
    if memory is None or memory.own:
        return False
    memory.foreign = True
    memory.save()
    return True


def _ended_by_itself(context: Context | None) -> None:
    """Tell the next try that this one was not killed."""
    if context is not None:
        memory = ChainMemory.of(context)
        memory.starts = 0
        memory.save()


def retry_arguments() -> dict[str, Any]:
    """The operator arguments that make a chain's retries ours, whatever a DAG's default_args say."""
    return {"retries": ENDLESS, "retry_policy": ChainRetryPolicy()}
