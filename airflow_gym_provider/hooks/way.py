"""The way to a login node: what a connection of Airflow says, and ~/.ssh/config where that says nothing.

The config's HostName, Port, User, IdentityFile, IdentityAgent, ProxyJump, ProxyCommand and the like count as for `ssh`;
a port, user or key of the connection comes first. Its host key checks are in `hooks.trust`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncssh

from airflow_gym_provider.exceptions import SlurmSettingsError
from airflow_gym_provider.hooks.settings import SshSettings
from airflow_gym_provider.hooks.trust import ALSO_OF_OTHER_KINDS, DEFAULT_FILES, read_hosts, trusting_strangers

_KEEPALIVE_SECONDS = 30
# Whatever ~/.ssh/config wants for people: a terminal would echo the script, and cut its long lines.
_NEVER = {"request_pty": False, "agent_forwarding": False, "x11_forwarding": False}


@dataclass(frozen=True)
class Way:
    """What `asyncssh.connect` is given, and where that leads. `through`: the jump hosts, "" for none."""

    options: dict[str, Any] = field(repr=False)
    username: str
    host: str
    port: int
    through: str = ""

    def __str__(self) -> str:
        """The place in words."""
        return f"{self.username}@{self.host}:{self.port}" + (f" by way of {self.through}" if self.through else "")


def find_way(settings: SshSettings) -> Way:
    """How to get there. Takes a moment: not for an event loop.

    Raises SlurmSettingsError for a key or a file that cannot be read, ~/.ssh/config among them.
    """
    options: dict[str, Any] = {
        "host": settings.host,
        "connect_timeout": settings.connect_timeout,
        "login_timeout": settings.connect_timeout,
        "keepalive_interval": _KEEPALIVE_SECONDS,
        **_NEVER,
    }
    given = {"port": settings.port, "username": settings.username, "password": settings.password}
    options |= {name: value for name, value in given.items() if value}
    if not settings.compress:
        options["compression_algs"] = None
    if settings.ciphers:
        options["encryption_algs"] = list(settings.ciphers)
    options |= _key_options(settings)
    try:
        found = asyncssh.SSHClientConnectionOptions(config=(), **options)
        options |= _host_key_options(settings, found)
    except (OSError, ValueError) as err:
        raise SlurmSettingsError(
            f"Connection {settings.conn_id!r}: the settings for ssh to {settings.host} (keys, known_hosts, "
            f"~/.ssh/config) cannot be used: {err}"
        ) from None
    through = found.tunnel if isinstance(found.tunnel, str) else "a ProxyCommand" if found.proxy_command else ""
    return Way(options, found.username, found.host, found.port, through)


def _key_options(settings: SshSettings) -> dict[str, Any]:
    if settings.private_key:
        text = settings.private_key
        return _only(settings, "extra 'private_key'", text if "\n" in text else text.replace("\\n", "\n"))
    if settings.key_file:
        path = Path(settings.key_file).expanduser()
        try:
            data = path.read_bytes()
        except OSError as err:
            raise SlurmSettingsError(
                f"Connection {settings.conn_id!r}: key_file {path} cannot be read: {err}"
            ) from None
        return _only(settings, f"key_file {path}", data)
    if settings.look_for_keys:
        return {"passphrase": settings.passphrase} if settings.passphrase else {}
    return {"client_keys": None, "agent_path": None}


def _only(settings: SshSettings, what: str, text: str | bytes) -> dict[str, Any]:
    """A key that is named is the one to use: an agent's keys would come first, and sshd bears a few refusals only."""
    try:
        return {"client_keys": [asyncssh.import_private_key(text, settings.passphrase)], "agent_path": None}
    except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as err:
        raise SlurmSettingsError(f"Connection {settings.conn_id!r}: {what} cannot be read: {err}") from None


def _host_key_options(settings: SshSettings, found: asyncssh.SSHClientConnectionOptions) -> dict[str, Any]:
    if not settings.check_host_key:
        return {"known_hosts": None}
    options: dict[str, Any] = {}
    if not found.config.get("HostKeyAlgorithms"):
        options["server_host_key_algs"] = ALSO_OF_OTHER_KINDS
    if settings.host_key:
        return options | {"known_hosts": ([_public_key(settings)], [], [])}
    hosts = read_hosts(_files(settings, found.known_hosts))
    if settings.trust_strangers:
        options["client_factory"] = trusting_strangers(hosts)
    return options | {"known_hosts": hosts}


def _files(settings: SshSettings, configs: Any) -> tuple[str, ...]:
    """The known_hosts files. One that the connection names must be there: OSError."""
    if settings.known_hosts:
        Path(settings.known_hosts).expanduser().stat()
        return (settings.known_hosts,)
    # None is "UserKnownHostsFile none": no file, which is not the same as no check
    return () if configs is None else tuple(configs) or DEFAULT_FILES


def _public_key(settings: SshSettings) -> asyncssh.SSHKey:
    try:
        return asyncssh.import_public_key(str(settings.host_key))
    except asyncssh.KeyImportError as err:
        raise SlurmSettingsError(
            f"Connection {settings.conn_id!r}: extra 'host_key' is no public key such as 'ssh-ed25519 AAAA…': {err}"
        ) from None
