"""One script, one answer: feed `bash -s` over its standard input and drain both outputs, in bounded time and memory.

The same code serves a local process and an SSH channel, so that both behave alike. The script is data on standard
input: it is in no process's arguments and in no exception.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import asyncssh

from airflow_gym_provider.config.hiding import CREDENTIAL
from airflow_gym_provider.exceptions import (
    SlurmAnswerCutError,
    SlurmSessionRefusedError,
    SlurmShellError,
    SlurmUnreachableError,
)
from airflow_gym_provider.slurm.remote import Answer

SHELL = "bash -s"
STDOUT_CAP = 64 * 1024 * 1024
STDERR_CAP = 1024 * 1024
_CHUNK = 64 * 1024
_KILL_SECONDS = 5
OPEN_SECONDS = 60.0
NO_STATUS = -1
_HANGS = "Does a file system hang there, or Slurm?"
# What sshd says when MaxSessions is reached: "open failed" as CONNECT_FAILED up to OpenSSH 10.
_REFUSALS = (
    asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED,
    asyncssh.OPEN_CONNECT_FAILED,
    asyncssh.OPEN_RESOURCE_SHORTAGE,
)

# What a job has no business with: it would travel on with sbatch, whose default is to export the whole environment.
_NOT_FOR_JOBS = re.compile(r"^(_?AIRFLOW_|PYTHON|VIRTUAL_ENV|SUPERVISOR_)", re.I)


class _Reader(Protocol):
    async def read(self, n: int) -> bytes: ...


def local_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a local shell: without Airflow's and Python's variables, and names that tell secrets.

    A login over SSH never sees a worker's environment; local mode should not hand more of it to jobs than that.
    """
    return {
        name: value for name, value in environ.items() if not (_NOT_FOR_JOBS.search(name) or CREDENTIAL.search(name))
    }


async def _drain(reader: _Reader, cap: int) -> bytes:
    """Read to the end, keep the first `cap` bytes: a talkative command must neither block nor fill the memory."""
    kept = bytearray()
    while chunk := await reader.read(_CHUNK):
        if len(kept) < cap:
            kept += chunk[: cap - len(kept)]
    return bytes(kept)


async def _feed(stdin: Any, text: str) -> None:
    # A script that ends early closes its input: its exit status and words tell more than the broken pipe.
    with suppress(BrokenPipeError, ConnectionResetError):
        stdin.write(text.encode())
        await stdin.drain()
        stdin.write_eof()


async def _talk(process: Any, text: str) -> tuple[str, str]:
    _, out, err = await asyncio.gather(
        _feed(process.stdin, text), _drain(process.stdout, STDOUT_CAP), _drain(process.stderr, STDERR_CAP)
    )
    return out.decode("utf-8", "replace"), err.decode("utf-8", "replace")


async def run_local(text: str, timeout: float) -> Answer:
    """Run a script in a shell of this machine; the shell's whole process group ends with the time.

    Raises SlurmUnreachableError (no bash) and SlurmAnswerCutError (time over).
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *SHELL.split(),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=local_environ(os.environ),
            cwd=_home(),
            start_new_session=True,
        )
    except OSError as err:
        kind = SlurmShellError if isinstance(err, FileNotFoundError) else SlurmUnreachableError
        raise kind(f"No shell on this machine: {err}") from None
    try:
        async with asyncio.timeout(timeout):
            out, err_text = await _talk(process, text)
            code = await process.wait()
    except TimeoutError:
        raise SlurmAnswerCutError(f"this machine: no complete answer within {timeout:g} s. {_HANGS}") from None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            with suppress(TimeoutError):
                async with asyncio.timeout(_KILL_SECONDS):
                    await process.wait()
    return Answer(code, out, err_text)


def _home() -> str:
    home = Path("~").expanduser()
    return str(home) if home.is_dir() else "/"


async def open_shell(conn: Any, timeout: float, where: str, **options: Any) -> Any:
    """A shell at the other end of an asyncssh connection, as a process of asyncssh; `options` as for those.

    Given up after a minute, whatever `timeout` is: that is for what runs in it. Raises SlurmSessionRefusedError when
    the server wants no further session, SlurmUnreachableError when none could be opened for another reason.
    """
    try:
        async with asyncio.timeout(min(timeout, OPEN_SECONDS)):
            return await conn.create_process(SHELL, encoding=None, **options)
    except asyncssh.ChannelOpenError as err:
        text = f"{where}: no shell could be opened: {err}"
        if err.code in _REFUSALS:
            raise SlurmSessionRefusedError(text) from None
        raise SlurmUnreachableError(text) from None
    except (OSError, asyncssh.Error) as err:  # TimeoutError is an OSError
        raise SlurmUnreachableError(f"{where}: no shell could be opened: {str(err) or type(err).__name__}") from None


async def run_ssh(conn: Any, text: str, timeout: float, where: str) -> Answer:
    """Run a script in a shell at the other end of an asyncssh connection.

    The exit status is -1 when none came: the connection ended, or the server (a gateway, a proxy) passes none on. Only
    the script's own marks tell then whether the answer is whole. Raises as `open_shell` (nothing ran then), and
    SlurmAnswerCutError when the connection or the time is known to have ended in the middle.
    """
    process = await open_shell(conn, timeout, where)
    try:
        async with asyncio.timeout(timeout):
            out, err_text = await _talk(process, text)
            await process.wait_closed()
    except TimeoutError:
        raise SlurmAnswerCutError(f"{where}: no complete answer within {timeout:g} s. {_HANGS}") from None
    except (OSError, asyncssh.Error) as err:
        raise SlurmAnswerCutError(
            f"{where}: the connection ended in the middle: {str(err) or type(err).__name__}"
        ) from None
    finally:
        process.close()
    return Answer(NO_STATUS if process.returncode is None else process.returncode, out, err_text)
