"""File systems of a test's own, seen by the cluster's daemons as well, which have mount namespaces of their own.

Takes root, or sudo, as the cluster's bring-up does. Run as a program it makes one folder's mount appear in the
namespace of another process.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

_OPEN_TREE, _MOVE_MOUNT = 428, 429  # the same numbers on every architecture
_CLONE, _RECURSIVE, _EMPTY_PATH, _HERE = 1, 0x8000, 4, -100


def as_root(*words: str | Path, check: bool = True) -> None:
    """A command with root's rights."""
    before = [] if os.geteuid() == 0 else ["sudo", "-n"]
    done = subprocess.run([*before, *map(str, words)], capture_output=True, text=True, check=False, timeout=60)
    assert not check or done.returncode == 0, f"{words}: {done.stderr}"


class Mounts:
    """A folder below which every mount shows in the namespaces of `pids` too. `end` takes all of them away."""

    def __init__(self, folder: Path, pids: Iterable[int]) -> None:
        self.folder, self._pids, self._numbers = folder, set(pids), itertools.count()
        as_root("mount", "-t", "tmpfs", "-o", "size=64m,mode=1777", "tmpfs", folder)
        as_root("mount", "--make-rshared", folder)
        seen = {Path("/proc/self/ns/mnt").stat().st_ino}
        for pid in self._pids:
            if (namespace := Path(f"/proc/{pid}/ns/mnt").stat().st_ino) not in seen:
                seen.add(namespace)
                as_root(sys.executable, "-S", "-E", __file__, str(pid), folder)

    def tmpfs(self, *options: str) -> Path:
        """A new file system, with the options of tmpfs(5) such as size=64k or nr_inodes=12."""
        path = self.folder / f"fs{next(self._numbers)}"
        path.mkdir(mode=0o777)
        as_root("mount", "-t", "tmpfs", "-o", ",".join(["mode=1777", *options]), "tmpfs", path)
        return path

    @staticmethod
    def remount(path: Path, *options: str) -> None:
        """Other options for one of them: size=1m makes room, ro takes the right to write."""
        as_root("mount", "-o", ",".join(["remount", *options]), path)

    def end(self) -> None:
        """Whatever still works in them keeps its files."""
        as_root("umount", "--recursive", "--lazy", self.folder)


def _show(pid: str, folder: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)

    def call(number: int, *words: object) -> int:
        found: int = libc.syscall(number, *words)
        if found < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return found

    path = folder.encode()
    tree = call(_OPEN_TREE, _HERE, path, _CLONE | _RECURSIVE)
    namespace = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY)
    if libc.setns(namespace, 0) != 0:
        raise OSError(ctypes.get_errno(), "setns")
    call(_MOVE_MOUNT, tree, b"", _HERE, path, _EMPTY_PATH)


if __name__ == "__main__":
    _show(*sys.argv[1:])
