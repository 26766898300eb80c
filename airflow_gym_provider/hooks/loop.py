"""An event loop in a thread of its own, for callers that are not asynchronous."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """Runs coroutines for blocking callers.

    A caller may be a signal handler that interrupted another caller: both wait on futures of their own, the loop serves
    both at once. That is how a kill reuses the connection which the interrupted task is waiting on. Daemon: it never
    keeps a process alive.
    """

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, coro: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Wait for a coroutine's result; it is cancelled when the caller is interrupted or after `timeout` seconds."""
        future = asyncio.run_coroutine_threadsafe(coro, self._loop)
        try:
            return future.result(timeout)
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        """End the loop and its thread, at most 2 s later."""
        if self._loop.is_running():
            asyncio.run_coroutine_threadsafe(self._wind_up(), self._loop)
            self._thread.join(2)
        if not self._loop.is_running():
            self._loop.close()

    async def _wind_up(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=1)
        self._loop.stop()
