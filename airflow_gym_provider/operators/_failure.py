"""Why a task is red, left where other tasks can read it: Airflow tells them another task's state, not its reason."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowException, AirflowTaskTimeout

from airflow_gym_provider import xcom_keys
from airflow_gym_provider.chain.errors import ChainError

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

"""XCom of a try that failed: `reason`. Airflow clears it when the next try begins."""
_LONGEST = 2000
_MOST_CAUSES = 10


def without_secrets(reason: str) -> str:
    """The text without what Airflow's masker knows, and without what a database refuses.

    The masker looks after logs by itself, not after what is stored.
    """
    from airflow.sdk.log import redact  # type: ignore[attr-defined]

    from airflow_gym_provider.storable import storable

    return str(storable(redact(reason)))


_log = logging.getLogger(__name__)


@contextmanager
def faults_without_secrets() -> Iterator[None]:
    """Within it, what is raised loses what Airflow's masker knows, and so does what it was raised from.

    The masker looks after the file of a task's log. The same lines go to the output of the scheduler and of workers,
    and exceptions to error trackers, as they are.
    """
    try:
        yield
    except Exception as err:
        _clean(err)
        raise


def _clean(err: BaseException | None, depth: int = 0) -> None:
    if err is None or depth > _MOST_CAUSES:
        return
    with suppress(Exception):  # what cannot be changed is raised as it is
        err.args = tuple(without_secrets(arg) if isinstance(arg, str) else arg for arg in err.args)
    _clean(err.__cause__, depth + 1)
    if err.__context__ is not err.__cause__:
        _clean(err.__context__, depth + 1)


@contextmanager
def reason_left(context: Context) -> Iterator[None]:
    """Within it, what fails leaves its reason as the XCom `gym_failure`. A deferral is no failure."""
    try:
        with faults_without_secrets():
            yield
    except (AirflowException, ChainError) as err:
        _leave(context, str(err))
        raise
    except AirflowTaskTimeout:
        _leave(context, "execution_timeout is over")
        raise
    except Exception as err:
        # Whatever it says may hold anything.
        _leave(context, f"unexpected {type(err).__name__}, see the log")
        raise


def _leave(context: Context, reason: str) -> None:
    ti: Any = context["ti"]
    reason = without_secrets(reason)
    # The failure is what counts: when Airflow does not take its reason, it is still raised.
    try:
        ti.xcom_push(key=xcom_keys.FAILURE, value={"reason": reason[:_LONGEST]})
    except Exception as err:
        _log.info("the reason of the failure could not be pushed: %s", type(err).__name__)
