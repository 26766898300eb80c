"""The latest word of a job for the pages, while its task waits: the XCom `gym_live`.

A trigger logs what changes; this keeps the last of it where a page can read it. Written when the state changes, and for
progress as often as it is counted. Nothing depends on it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from airflow_gym_provider import xcom_keys
from airflow_gym_provider.slurm.jobs import JobRef, JobStatus
from airflow_gym_provider.storable import storable
from airflow_gym_provider.triggers.observe import Observation

PROGRESS_EVERY = 15.0
_TIMEOUT = 10.0

_log = logging.getLogger(__name__)


class LiveWord:
    """What was last said of one job."""

    def __init__(self, ref: JobRef) -> None:
        self.ref = ref
        self._said: tuple[Any, ...] = ()
        self._counted = (0, 0)
        self._at = float("-inf")
        self._status: JobStatus | None = None
        self._seen_at = 0.0

    def values(self, look: Observation, now: float) -> dict[str, Any] | None:
        """The word for this look; None when there is nothing new. `now` in seconds since 1970, durations in seconds."""
        status, progress = look.statuses.get(self.ref.key), look.progress.get(self.ref.key)
        # A look leaves out what has not changed, and does not count every job.
        if status is not None and status.known:
            self._status, self._seen_at = status, now
        if progress is not None:
            self._counted = (progress.done, progress.expected)
        status = self._status
        if status is None:
            return None
        state, (done, expected) = (status.state, status.reason), self._counted
        first_count = bool(expected) and not self._said[3:]
        same = self._said[:2] == state and not first_count
        if same and (self._said[2:3] == (done,) or now - self._at < PROGRESS_EVERY):
            return None
        self._said, self._at = (*state, done, *([expected] if expected else [])), now
        ran = int(now - self._seen_at) if status.state == "RUNNING" else 0
        word = {
            "job_id": self.ref.key,
            "state": status.state,
            "reason": status.reason[:200],
            "elapsed": status.elapsed + ran,
            "nodes": status.nodes[:200],
            "start_estimate": status.start_estimate,
            "ended": status.ending is not None,
            "at": int(now),
        }
        return word | ({"done": done, "expected": expected} if expected else {})

    async def tell(self, ti: Any, look: Observation) -> None:
        """Leave the word with the task instance, if there is one and something is new. Never raises, within 10 s."""
        values = self.values(look, time.time()) if ti is not None else None
        if values is None:
            return
        with _harmless():
            async with asyncio.timeout(_TIMEOUT):
                await asyncio.to_thread(_push, ti, values)

    def tell_here(self, ti: Any, look: Observation) -> None:
        """The same from the worker that waits for the job itself."""
        values = self.values(look, time.time())
        if values is not None:
            with _harmless():
                ti.xcom_push(key=xcom_keys.LIVE, value=storable(values))


@contextmanager
def _harmless() -> Iterator[None]:
    try:
        yield
    except Exception as err:
        _log.debug("%s could not be left: %s", xcom_keys.LIVE, type(err).__name__)


def _push(ti: Any, values: dict[str, Any]) -> None:
    from airflow.sdk.execution_time.xcom import XCom

    XCom.set(
        xcom_keys.LIVE,
        storable(values),
        dag_id=ti.dag_id,
        task_id=ti.task_id,
        run_id=ti.run_id,
        map_index=-1 if ti.map_index is None else ti.map_index,
    )
