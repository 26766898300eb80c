"""Which host keys are trusted: unknown and changed ones are refused, unless the connection itself says otherwise.

As with `ssh`, what known_hosts files say counts (hashed names, "[host]:port", @cert-authority, @revoked), and a line
that cannot be read does not keep the others from counting. Nothing in ~/.ssh/config switches the check off.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import asyncssh

DEFAULT_FILES = ("~/.ssh/known_hosts", "/etc/ssh/ssh_known_hosts")

ALSO_OF_OTHER_KINDS = "+ssh-ed25519,ecdsa-sha2-*,rsa-sha2-*"
"""Host keys that a server is asked for after the kinds that are known of it: one that has another is then refused for
its key, and not for an end of the connection that nothing explains.
"""


def read_hosts(paths: Iterable[str]) -> asyncssh.SSHKnownHosts:
    """What these known_hosts files say; those that are not there say nothing. Raises OSError for one that cannot be
    read.
    """
    hosts = asyncssh.SSHKnownHosts()
    for path in paths:
        try:
            text = Path(path).expanduser().read_bytes().decode("utf-8", "replace")
        except (FileNotFoundError, NotADirectoryError):
            continue
        for line in text.splitlines():
            if _usable(line):
                hosts.load(line)
    return hosts


def _usable(line: str) -> bool:
    """Whether asyncssh takes the line: it gives up a whole file for one that it does not understand."""
    words = line.split()
    try:
        asyncssh.SSHKnownHosts(line)
    except ValueError:
        return False
    return not any("-cert-v01@" in word for word in words[1:3])


def trusting_strangers(hosts: asyncssh.SSHKnownHosts) -> type[asyncssh.SSHClient]:
    """A client that takes whatever key a host shows of which these know none: `no_host_key_check` without
    `allow_host_key_change`, as in the ssh provider. A host that they know must show the key that they know.
    """

    class Trusting(asyncssh.SSHClient):
        def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
            keys, authorities, *_ = hosts.match(host, addr, None if port == 22 else port)
            return not keys and not authorities

        validate_host_ca_key = validate_host_public_key

    return Trusting
