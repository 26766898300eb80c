"""A real sshd of a test's own, on loopback, with keys and options of its own: for what a site's sshd may be like."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path


class Sshd:
    """One daemon. Its shells are the machine's, in a home of the test's."""

    def __init__(self, folder: Path, *options: str, host_keys: tuple[Path, ...], user_key: Path) -> None:
        folder.mkdir()
        (folder / "home").mkdir()
        self.home, self.log = folder / "home", folder / "log"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        lines = [
            f"Port {self.port}",
            "ListenAddress 127.0.0.1",
            *(f"HostKey {key}" for key in host_keys),
            f"AuthorizedKeysFile {user_key}.pub",
            "PidFile none",
            "StrictModes no",
            "UsePAM no",
            "UseDNS no",
            "PrintMotd no",
            "LogLevel VERBOSE",
            "MaxStartups 1000",
            f"SetEnv HOME={self.home}",
            *options,
        ]
        (folder / "config").write_text("\n".join(lines) + "\n")
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        program = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
        self._process = subprocess.Popen(
            [str(program), "-D", "-E", self.log, "-f", folder / "config"],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 10
        while "Server listening" not in self.said():
            assert self._process.poll() is None and time.monotonic() < deadline, self.said()
            time.sleep(0.01)

    def said(self) -> str:
        """Its log so far."""
        return self.log.read_text() if self.log.exists() else ""

    @property
    def connects(self) -> int:
        """How many connections it has accepted so far."""
        return self.said().count("Connection from ")

    def end(self) -> None:
        self._process.terminate()
        self._process.wait(10)


def make_key(path: Path, kind: str = "ed25519", passphrase: str = "") -> Path:
    """A new key pair: the private one's path."""
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-f", path], check=True)
    return path


def public(path: Path) -> str:
    """ "type key" of a key pair."""
    return " ".join(Path(f"{path}.pub").read_text().split()[:2])
