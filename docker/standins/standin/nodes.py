"""What "this node" means where all nodes are one machine: each node name has a loopback address of its own."""

from __future__ import annotations

import os
import socket
import time
from urllib.parse import urlsplit


def own_address() -> str | None:
    """The node's address, such as 127.10.7.2; None outside Slurm and on a real node."""
    try:
        own = socket.gethostbyname(os.environ["SLURMD_NODENAME"])
    except (KeyError, OSError):
        return None
    return own if own.startswith("127.") and own != "127.0.0.1" else None


def on_this_node(url: str, patience: float = 10) -> str:
    """The URL with localhost replaced by the node's own address: on real nodes, localhost never reaches another node's
    server. A server that is still starting is waited for; what listens on localhost alone is reached there."""
    parts, own = urlsplit(url), own_address()
    if own is None or parts.hostname not in ("localhost", "127.0.0.1"):
        return url
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        try:
            socket.create_connection((own, parts.port or 80), timeout=5).close()
        except OSError:
            time.sleep(0.2)
        else:
            return parts._replace(netloc=f"{own}:{parts.port or 80}").geturl()
    return url
