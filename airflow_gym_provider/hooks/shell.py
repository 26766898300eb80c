"""A shell that stays: it takes one script after another, so that asking often costs the login node no new shells.

Starting a shell there means a process of sshd's, the account's start-up files, and a program that bash reads byte by
byte: together more than the question itself. A shell that stays is given the functions once, then short scripts. It
costs the login node a sleeping bash; after `MOST_TURNS` scripts it is replaced, so that nothing piles up in it.
"""

from __future__ import annotations

import asyncio
from typing import Any

import asyncssh

from airflow_gym_provider.exceptions import SlurmAnswerCutError
from airflow_gym_provider.hooks.transport import STDOUT_CAP, open_shell
from airflow_gym_provider.slurm.remote import Answer, RemoteScript

MOST_TURNS = 500
_CHUNK = 256 * 1024


class ShellEndedError(SlurmAnswerCutError):
    """The shell has ended before the answer did: somebody killed it, or the connection is gone."""


class Shell:
    """Such a shell over one asyncssh connection. Whatever goes wrong in a turn, the shell is closed: a late answer must
    not be taken for that to the next script. Standard error is thrown away.
    """

    def __init__(self, conn: Any, process: Any, where: str) -> None:
        self.conn = conn
        self.busy = False
        self._process = process
        self._where = where
        self._turns = 0
        self._closed = False

    @classmethod
    async def open(cls, conn: Any, timeout: float, where: str) -> Shell:
        """Start one within `timeout` seconds; `where` names the place in errors. Raises as `open_shell`."""
        return cls(conn, await open_shell(conn, timeout, where, stderr=asyncssh.DEVNULL), where)

    @property
    def usable(self) -> bool:
        """Whether it can be asked once more."""
        return not self._closed and self._turns < MOST_TURNS and not self.conn.is_closed()

    async def ask(self, script: RemoteScript, timeout: float) -> Answer:
        """Run a script within `timeout` seconds and return its answer.

        Raises SlurmAnswerCutError: time over, more than 64 MB, or (then it is a ShellEndedError) the shell's end.
        """
        self.busy, done = True, False
        self._turns += 1
        try:
            async with asyncio.timeout(timeout):
                self._process.stdin.write(script.text.encode())
                text = await self._until(f"\n@@{script.nonce} end ".encode())
            done = True
            return Answer(0, text.decode("utf-8", "replace"), "")
        except TimeoutError:
            raise SlurmAnswerCutError(f"{self._where}: no complete answer within {timeout:g} s") from None
        except (OSError, asyncssh.Error) as err:
            raise self._ended(f"the connection ended in the middle: {str(err) or type(err).__name__}") from None
        finally:
            self.busy = False
            if not done:
                self.close()

    async def _until(self, mark: bytes) -> bytearray:
        """All that it prints up to the line that begins with `mark`, and that line."""
        text, start = bytearray(), 0
        while True:
            found = text.find(mark, start)
            if found >= 0 and text.find(b"\n", found + len(mark)) >= 0:
                return text
            start = max(0, len(text) - len(mark)) if found < 0 else found
            chunk = await self._process.stdout.read(_CHUNK)
            if not chunk:
                raise self._ended("the shell ended before the script did")
            text += chunk
            if len(text) > STDOUT_CAP:
                raise SlurmAnswerCutError(f"{self._where}: an answer of more than {STDOUT_CAP >> 20} MB")

    def _ended(self, how: str) -> ShellEndedError:
        hint = " Is bash there, and may this account run commands?" if self._turns == 1 else ""
        return ShellEndedError(f"{self._where}: {how}.{hint}")

    def close(self) -> None:
        """End it: its input ends, and what still runs in it loses its output."""
        self._closed = True
        self._process.close()
