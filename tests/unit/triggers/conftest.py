"""A clock that jumps: hours of waiting take no time, and nothing is left to chance."""

import asyncio
import time

import pytest


class ClockLoop(asyncio.SelectorEventLoop):
    """An event loop whose time moves to the next timer as soon as nothing is left to do."""

    def __init__(self):
        super().__init__()
        self.now = 1000.0

    def time(self):
        return self.now

    def _run_once(self):
        waiting = [timer for timer in self._scheduled if not timer.cancelled()]
        if not self._ready and waiting:
            self.now = max(self.now, min(timer._when for timer in waiting))
        super()._run_once()


@pytest.fixture
def run(monkeypatch):
    """Run a coroutine under that clock; time.time() follows it."""

    def runner(coro):
        with asyncio.Runner(loop_factory=ClockLoop) as loop:
            monkeypatch.setattr(time, "time", lambda: loop.get_loop().time())
            return loop.run(coro)

    return runner
