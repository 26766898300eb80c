"""How many shells run at once over one connection.

An sshd allows 10 (MaxSessions), some sites one. How many is learnt from the refusals: the script that was refused waits
for another to end, and from then on no more are tried at once.
"""

from __future__ import annotations

import asyncio

MOST_SESSIONS = 4


class Sessions:
    """The shells of one connection: `async with` waits for a free one. Belongs to one event loop."""

    def __init__(self, most: int = MOST_SESSIONS) -> None:
        self._most = most
        self._freed = asyncio.Condition()
        self.running = 0

    async def __aenter__(self) -> Sessions:
        async with self._freed:
            await self._freed.wait_for(lambda: self.running < self._most)
            self.running += 1
        return self

    async def __aexit__(self, *exc: object) -> None:
        async with self._freed:
            self.running -= 1
            self._freed.notify_all()  # all: one that was cancelled meanwhile would keep the word to itself

    def refused(self) -> bool:
        """The server opened no shell beside those of others: from now on no more than they are tried. False when there
        are no others, so that it is no matter of how many.
        """
        if self.running < 2:
            return False
        self._most = max(1, min(self._most, self.running - 1))
        return True
