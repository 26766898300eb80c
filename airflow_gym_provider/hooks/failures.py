"""What a connection that was not made means: whether trying again can help, and what people should look at."""

from __future__ import annotations

import re
import socket
from typing import TYPE_CHECKING

import asyncssh

from airflow_gym_provider.exceptions import (
    SlurmAuthenticationError,
    SlurmSettingsError,
    SlurmTransportError,
    SlurmUnknownHostError,
    SlurmUnreachableError,
)

if TYPE_CHECKING:
    from airflow_gym_provider.hooks.way import Way

_REFUSED = (asyncssh.PermissionDenied, asyncssh.PasswordChangeRequired, asyncssh.IllegalUserName)
# Of a server of names that answers; one that does not is EAI_AGAIN.
_NO_SUCH_NAME = {getattr(socket, name) for name in ("EAI_NONAME", "EAI_NODATA") if hasattr(socket, name)}
# sshd says so when it has refused MaxAuthTries keys, as a breach of the protocol.
_TOO_MANY = re.compile("Too many authentication failures", re.IGNORECASE)
# The server has only keys of kinds that are not known of it: the known one is gone.
_OTHER_KIND = re.compile("No matching (?:server )?host key algorithm", re.IGNORECASE)


def connect_failure(err: Exception, where: str, way: Way) -> SlurmTransportError:
    """The exception to raise for `err` of `asyncssh.connect`; `where` names host and connection."""
    said = str(err) or type(err).__name__
    if isinstance(err, asyncssh.HostKeyNotVerifiable) or _OTHER_KIND.search(said):
        return SlurmAuthenticationError(
            f"{where}: the host key is not the trusted one: {said}. A key that has changed may be somebody in between: "
            "compare what the host shows (ssh-keyscan HOST | ssh-keygen -lf -) with what its site publishes. Then put "
            f"the right key into known_hosts or the connection's extra host_key{_by_way(way)}"
        )
    if isinstance(err, _REFUSED) or _TOO_MANY.search(said):
        return SlurmAuthenticationError(
            f"{where}: login refused for user {way.username}: {said}. Check login and key_file/private_key of the "
            f"connection; a site that asks for a one-time code cannot be used so{_by_way(way)}"
        )
    if isinstance(err, ValueError):
        return SlurmSettingsError(f"{where}: its settings for ssh cannot be used: {said}{_by_way(way)}")
    if isinstance(err, socket.gaierror) and err.errno in _NO_SUCH_NAME:
        return SlurmUnknownHostError(
            f"{where}: cannot connect: {said}. Check the host of the connection (compute.<name>.hostname, if it has "
            f"none), and that this machine can look it up{_by_way(way)}"
        )
    return SlurmUnreachableError(f"{where}: cannot connect: {said}{_by_way(way)}")


def _by_way(way: Way) -> str:
    """What ~/.ssh/config has to do with it, for whoever looks at the connection alone."""
    return f". It goes to {way}, says ~/.ssh/config; either may be meant" if way.through else ""
