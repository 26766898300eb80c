"""SlurmHook: run a script where Slurm's commands are, over an SSH connection of Airflow or on this machine."""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import asyncssh
from airflow.providers.common.compat.connection import get_async_connection, get_async_extra_dejson
from airflow.sdk import BaseHook

from airflow_gym_provider.chain.hindrances import cure
from airflow_gym_provider.exceptions import (
    SlurmAnswerCutError,
    SlurmAuthenticationError,
    SlurmSessionRefusedError,
    SlurmSettingsError,
    SlurmShellError,
    SlurmTransportError,
    SlurmUnreachableError,
)
from airflow_gym_provider.hooks.failures import connect_failure
from airflow_gym_provider.hooks.loop import LoopThread
from airflow_gym_provider.hooks.missing import given_connection
from airflow_gym_provider.hooks.sessions import Sessions
from airflow_gym_provider.hooks.settings import DEFAULT_POLL_FLOOR, SshSettings
from airflow_gym_provider.hooks.shell import Shell, ShellEndedError
from airflow_gym_provider.hooks.transport import NO_STATUS, run_local, run_ssh
from airflow_gym_provider.hooks.way import find_way

if TYPE_CHECKING:
    from airflow.sdk import Connection

    from airflow_gym_provider.slurm.remote import Answer, RemoteScript

T = TypeVar("T")

DEFAULT_TIMEOUT = 120.0
LOCAL_POLL_FLOOR = 1.0
_MARGIN = 10.0
_REFUSALS_BORNE = 3
_AFTER_REFUSAL = 0.3
_AFTER_FAILURE = 1.0
_AFTER_REFUSED_LOGIN = 15.0


def is_this_machine(hostname: str | None) -> bool:
    """Whether a config's hostname means the machine we run on: null, localhost, or one of its own names."""
    if hostname is None or hostname in ("localhost", "127.0.0.1", "::1"):
        return True
    own = socket.gethostname()
    return hostname in (own, own.split(".", 1)[0]) or hostname == socket.getfqdn()


class SlurmHook(BaseHook):
    """Runs one script after another on a login node, over one reused connection.

    Local (a `bash -s` of this machine) when there is no `ssh_conn_id` and `hostname` is null or this machine. Workers
    and triggers use one SSH client (asyncssh), so that host key checks, keys and passphrases count alike in both.
    An unknown or changed host key is refused unless the connection says otherwise. Every call ends within its timeout
    and the time to connect, also when a login node accepts and never answers.

    One hook belongs to one event loop: use `run` or `arun` of an object, not both.

    :param ssh_conn_id: connection of type `slurm` or `ssh`; see `hooks.settings` for its extras.
    :param hostname: `compute.<name>.hostname` of the config.
    :raises SlurmSettingsError: a host is named that is not this machine, and no connection leads to it.
    """

    conn_name_attr = "ssh_conn_id"
    default_conn_name = "slurm_default"
    conn_type = "slurm"
    hook_name = "Slurm"

    def __init__(self, ssh_conn_id: str | None = None, hostname: str | None = None) -> None:
        super().__init__()
        self.ssh_conn_id = ssh_conn_id
        self.hostname = hostname
        if ssh_conn_id is None and not is_this_machine(hostname):
            raise SlurmSettingsError(
                f"compute.<name>.hostname is {hostname!r}, which is not this machine ({socket.gethostname()}): "
                "give the operator ssh_conn_id=<an SSH connection to that login node>"
            )
        self._settings: SshSettings | None = None
        self._poll_floor = LOCAL_POLL_FLOOR if ssh_conn_id is None else DEFAULT_POLL_FLOOR
        self._port = 22
        self._conn: Any = None
        self._connecting: asyncio.Lock | None = None
        self._sessions: Sessions | None = None
        self._failed: tuple[SshSettings | None, SlurmTransportError, float] | None = None
        self._thread: LoopThread | None = None
        self._shell: Shell | None = None
        self._shells_stay = True

    @property
    def local(self) -> bool:
        """Whether scripts run on this machine."""
        return self.ssh_conn_id is None

    @property
    def where(self) -> str:
        """The place in words, for messages."""
        if self.local:
            return "this machine"
        settings = self._settings
        host = f"{settings.host}:{settings.port or self._port} " if settings else ""
        return f"{host}(connection {self.ssh_conn_id!r})"

    # -- settings -------------------------------------------------------------------------------------------------

    def load(self) -> SshSettings | None:
        """Read the connection, once; None when local. Asks Airflow, so not from an event loop.

        Raises SlurmSettingsError for one that is not there or cannot be right.
        """
        if not self.local and self._settings is None:
            self.use(given_connection(str(self.ssh_conn_id)))
        return self._settings

    async def aload(self) -> SshSettings | None:
        """As `load`, without blocking the event loop."""
        if not self.local and self._settings is None:
            conn = await get_async_connection(str(self.ssh_conn_id))
            extra = await get_async_extra_dejson(conn) if conn.extra else {}
            self._take(SshSettings.read(conn, extra, self.hostname))
        return self._settings

    def use(self, conn: Connection) -> None:
        """Take a connection at hand instead of asking Airflow for it."""
        self._take(SshSettings.read(conn, conn.extra_dejson if conn.extra else {}, self.hostname))

    def _take(self, settings: SshSettings) -> None:
        self._settings, self._poll_floor = settings, settings.poll_floor

    def forget(self) -> None:
        """Read the connection again before the next connect: it may be repaired by then."""
        self._settings = None

    @property
    def place(self) -> SshSettings | None:
        """What two connections have in common that lead to the same login node and account in the same way; None when
        local. Known after `load`.
        """
        return self._settings.place if self._settings else None

    @property
    def needed_hostname(self) -> str | None:
        """The config's hostname, when the connection names no host of its own; known after `load`."""
        return self.hostname if self._settings and self._settings.host_is_configs else None

    @property
    def script_options(self) -> dict[str, Any]:
        """How scripts find Slurm there, for RemoteScript.build and the builders on top of it; known after `load`."""
        settings = self._settings
        return {
            "slurm_bin": settings.slurm_bin if settings else None,
            "login_profile": settings.login_profile if settings else False,
        }

    @property
    def poll_floor(self) -> float:
        """The shortest time between two status calls in seconds: the extra `poll_interval`, or 30; locally 1."""
        return self._poll_floor

    def test_connection(self) -> tuple[bool, str]:
        """Airflow's "Test" button: whether Slurm and its accounting answer, and what to mend; see `hooks.checking`."""
        from airflow_gym_provider.hooks.checking import check_connection

        return check_connection(self)

    # -- running --------------------------------------------------------------------------------------------------

    def run(self, script: RemoteScript, timeout: float = DEFAULT_TIMEOUT, *, attempts: int = 3) -> Answer:
        """Run a script and return its answer, whatever its exit status; blocks for `timeout` seconds and the connect.

        A connection that is not made is tried `attempts` times, seconds apart: an sshd drops some of those that come at
        once (MaxStartups). Raises SlurmAuthenticationError (never tried again), SlurmUnreachableError (nothing ran),
        SlurmAnswerCutError (it may have run).
        """
        settings = self.load()
        if self._thread is None:
            self._thread = LoopThread(f"slurm-{self.ssh_conn_id or 'local'}")
        limit = 2 * timeout + _MARGIN + (4 * settings.connect_timeout if settings else 0)
        for _ in range(attempts - 1):
            try:
                return self._thread.run(self.arun(script, timeout), limit)
            except SlurmUnreachableError as err:
                self.log.info("%s; trying again", err)
                time.sleep(random.uniform(1, 4))  # noqa: S311
        return self._thread.run(self.arun(script, timeout), limit)

    async def arun(self, script: RemoteScript, timeout: float = DEFAULT_TIMEOUT) -> Answer:
        """As `run`, for an event loop."""
        if self.local:
            return self._whole(script, await run_local(script.text, timeout))
        return self._whole(script, await self._over_ssh(lambda conn: self._run(conn, script, timeout)))

    async def _run(self, conn: Any, script: RemoteScript, timeout: float) -> Answer:
        answer = await run_ssh(conn, script.text, timeout, self.where)
        # Judged here, where a connection that has ended is dropped.
        return self._whole(script, answer) if answer.returncode == NO_STATUS else answer

    async def aask(
        self, write: Callable[..., RemoteScript], timeout: float = DEFAULT_TIMEOUT, *, anew: bool = False
    ) -> tuple[RemoteScript, Answer]:
        """As `arun` for scripts that only look, over one shell that stays open; the script that was run and its answer.

        `write(fresh=False)` gives a script for the shell that has answered the last one, `write(fresh=True)` for a new
        one: when the shell or the connection has ended meanwhile, when sshd has no session to spare (MaxSessions), on
        this machine always, and when it is to be `anew`. One at a time. Raises as `arun`.
        """
        if self.local:
            script = write(fresh=True)
            return script, self._whole(script, await run_local(script.text, timeout))
        if anew:
            self._end_shell()
        return await self._over_ssh(lambda conn: self._ask(conn, write, timeout))

    async def _ask(self, conn: Any, write: Callable[..., RemoteScript], timeout: float) -> tuple[RemoteScript, Answer]:
        try:
            shell = self._shell
            if shell is not None and shell.conn is conn and shell.usable:
                script = write(fresh=False)
                try:
                    return script, await shell.ask(script, timeout)
                except ShellEndedError as err:
                    if conn.is_closed():
                        raise SlurmUnreachableError(str(err)) from None
            self._end_shell()
            shell = self._shell = await Shell.open(conn, timeout, self.where)
            script = write(fresh=True)
            return script, await shell.ask(script, timeout)
        finally:
            if not self._shells_stay:
                self._end_shell()

    def _end_shell(self) -> bool:
        """End the shell that stays; whether there was one."""
        shell, self._shell = self._shell, None
        if shell is not None:
            shell.close()
        return shell is not None

    def _whole(self, script: RemoteScript, answer: Answer) -> Answer:
        if not script.frames(answer.stdout).complete:
            if answer.returncode == NO_STATUS:
                raise SlurmAnswerCutError(f"{self.where}: the connection ended in the middle of an answer")
            # Only the status, and whether it knew why: what a shell complains about may quote the script.
            text = f"{self.where}: the shell ended with status {answer.returncode} before the script did. "
            why = cure(answer.stderr)
            if not why and not script.began(answer.stdout):
                raise SlurmShellError(f"{text}Is bash there, and may this account run commands?")
            raise SlurmAnswerCutError(f"{text}{why or 'Was it killed?'}")
        return answer

    async def _over_ssh(self, talk: Callable[[Any], Awaitable[T]]) -> T:
        await self.aload()
        if self._sessions is None:
            self._sessions = Sessions()
        for attempt in itertools.count():
            async with self._sessions:
                conn, fresh = await self._connection()
                try:
                    return await talk(conn)
                except SlurmSessionRefusedError:
                    if self._make_room() or not self._sessions.refused():
                        # sshd may still count the shell that has just ended; on a new connection there is none
                        if attempt < _REFUSALS_BORNE:
                            await asyncio.sleep(_AFTER_REFUSAL)
                            continue
                        self._drop(conn)
                        raise
                except SlurmUnreachableError:
                    self._drop(conn)
                    # One that was idle for long may be dead without our knowing; the script has not been sent yet.
                    if fresh or attempt >= _REFUSALS_BORNE:
                        raise
                except SlurmAnswerCutError:
                    if self._sessions.running == 1 or conn.is_closed():
                        self._drop(conn)  # others may still get their answers over it
                    raise
        raise AssertionError

    def _make_room(self) -> bool:
        """No shell stays from now on; whether one that was idle has been ended for that."""
        self._shells_stay = False
        return self._shell is not None and not self._shell.busy and self._end_shell()

    async def _connection(self) -> tuple[Any, bool]:
        """The open connection, and whether it is new. Never two handshakes at once, and whoever was waiting for one
        that failed takes part in the failure: a crowd must not knock one after the other.
        """
        if self._connecting is None:
            self._connecting = asyncio.Lock()
        async with self._connecting:
            if self._conn is not None and not self._conn.is_closed():
                return self._conn, False
            failed, self._failed = self._failed, None
            if failed and failed[0] == self._settings and asyncio.get_running_loop().time() < failed[2]:
                self._failed = failed
                raise type(failed[1])(str(failed[1]))
            try:
                self._conn, self._shells_stay = await self._connect(), True
            except SlurmTransportError as err:
                hold = _AFTER_REFUSED_LOGIN if isinstance(err, SlurmAuthenticationError) else _AFTER_FAILURE
                self._failed = (self._settings, err, asyncio.get_running_loop().time() + hold)
                raise
            return self._conn, True

    async def _connect(self) -> Any:
        quiet = logging.getLogger("asyncssh")
        if quiet.level == logging.NOTSET:
            quiet.setLevel(logging.WARNING)
        settings = self._settings
        if settings is None:
            raise SlurmSettingsError("The connection has not been read yet")
        # in a thread: reading a key with a passphrase takes a good part of a second
        way = await asyncio.to_thread(find_way, settings)
        self._port = way.port
        try:
            async with asyncio.timeout(2 * settings.connect_timeout):
                return await asyncssh.connect(**way.options)
        except (OSError, asyncssh.Error, ValueError) as err:  # TimeoutError is an OSError
            raise connect_failure(err, self.where, way) from None

    # -- closing --------------------------------------------------------------------------------------------------

    def _drop(self, conn: Any) -> None:
        if self._shell is not None and self._shell.conn is conn:
            self._end_shell()
        conn.abort()
        if self._conn is conn:
            self._conn = None

    async def aclose(self) -> None:
        """Close the connection; it opens again with the next script."""
        conn, self._conn = self._conn, None
        self._end_shell()
        if conn is not None:
            conn.close()
            with suppress(Exception):
                async with asyncio.timeout(2):
                    await conn.wait_closed()

    def close(self) -> None:
        """As `aclose`, for callers of `run`."""
        thread, self._thread = self._thread, None
        if thread is not None:
            with suppress(Exception):
                thread.run(self.aclose(), 3)
            thread.stop()

    def __enter__(self) -> SlurmHook:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    async def __aenter__(self) -> SlurmHook:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()
