"""A login node in this process: a real SSH server (asyncssh) whose shell is the machine's own bash."""

import asyncio
import json
import os
import signal
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import asyncssh
import pytest


class LoginNode:
    """What the test sees of the server: its port and keys, how many connected and how many handshakes ran at once."""

    def __init__(self, folder: Path) -> None:
        self.host_key = asyncssh.generate_private_key("ssh-ed25519")
        self.user_key = asyncssh.generate_private_key("ssh-ed25519")
        self.folder = folder
        self.port = 0
        self.connects = 0
        self.conns = []
        self.before_shell = None

    def connection(self, **extra) -> str:
        """Airflow's connection to it, as JSON."""
        key = self.folder / "key"
        key.write_bytes(self.user_key.export_private_key())
        extra = {"key_file": str(key), "host_key": self.host_key.export_public_key().decode().strip()} | extra
        values = {name: value for name, value in extra.items() if value is not None}
        return json.dumps({"conn_type": "ssh", "host": "127.0.0.1", "port": self.port, "login": "u", "extra": values})


async def _shell(process: asyncssh.SSHServerProcess, node: LoginNode) -> None:
    if node.before_shell:
        await node.before_shell(process)
    bash = await asyncio.create_subprocess_exec(
        "bash",
        "-s",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )

    async def pump(source, target):
        while data := await source.read(65536):
            target.write(data)
            await target.drain()

    async def feed():
        await pump(process.stdin, bash.stdin)
        bash.stdin.close()

    feeding = asyncio.create_task(feed())
    try:
        await asyncio.gather(pump(bash.stdout, process.stdout), pump(bash.stderr, process.stderr))
        process.exit(await bash.wait())
    except (OSError, asyncssh.Error):
        pass  # the client has gone
    finally:
        feeding.cancel()
        await asyncio.gather(feeding, return_exceptions=True)
        with suppress(ProcessLookupError):
            os.killpg(bash.pid, signal.SIGKILL)
        await bash.wait()


@asynccontextmanager
async def login_node(folder: Path):
    node = LoginNode(folder)

    class Server(asyncssh.SSHServer):
        def connection_made(self, conn):
            node.connects += 1
            node.conns.append(conn)

        def begin_auth(self, username):
            return True

        def public_key_auth_supported(self):
            return True

        def validate_public_key(self, username, key):
            return key == node.user_key.convert_to_public()

    server = await asyncssh.listen(
        "127.0.0.1",
        0,
        server_factory=Server,
        server_host_keys=[node.host_key],
        process_factory=lambda process: _shell(process, node),
        encoding=None,
    )
    node.port = server.get_port()
    try:
        yield node
    finally:
        server.close()
        for conn in node.conns:
            conn.abort()
        with suppress(Exception):
            await asyncio.wait_for(server.wait_closed(), 2)


@pytest.fixture
async def node(tmp_path):
    """A running login node."""
    async with login_node(tmp_path) as running:
        yield running


@pytest.fixture
def connect(monkeypatch):
    """Give Airflow a connection named "login"."""

    def give(uri: str) -> None:
        monkeypatch.setenv("AIRFLOW_CONN_LOGIN", uri)

    return give
