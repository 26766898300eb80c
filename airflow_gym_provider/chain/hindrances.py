"""What keeps a directory on the cluster from being used, in words that say what to do about it.

The system's own texts come back from bash and coreutils with noise around them (LC_ALL=C, so they are in English). They
are told with the place first, then what is wrong there, then the cure.
"""

from __future__ import annotations

import re

__all__ = ["cure", "told"]

_ELSEWHERE = "or use another job.output_path"
# The first that fits decides.
_CURES = (
    (
        "No space left on device",
        f"That file system is full, in bytes or in files (`df -h` and `df -i` there tell): make room, {_ELSEWHERE}",
    ),
    (
        "Disk quota exceeded",
        f"The account's quota there is used up, in bytes or in files: remove what is not needed, {_ELSEWHERE}",
    ),
    (
        "Read-only file system",
        f"It is mounted read-only where the script ran: have it mounted for writing, {_ELSEWHERE}",
    ),
    (
        "Permission denied|Operation not permitted",
        f"The account of the connection may not do that there: give it the right to, {_ELSEWHERE}",
    ),
    (
        "Stale file handle|Input/output error|Transport endpoint|Host is down|Remote I/O error|Connection timed out",
        f"That file system does not answer as it should where the script ran: have it mounted anew, {_ELSEWHERE}",
    ),
    (
        "Resource temporarily unavailable|Cannot allocate memory|Cannot fork|fork system call failed",
        "The login node has no process or memory to spare for this account: end what it does not need there "
        "(`ulimit -u` tells how many it may have)",
    ),
    (
        "Not a directory|File exists|Is a directory|Too many levels of symbolic links",
        f"Something there is no folder, or a link that leads nowhere: move it away, {_ELSEWHERE}",
    ),
    (
        # all that some of coreutils say when a file system fills while they write
        "write error(?!:)",
        f"That file system may be full, in bytes or in files (`df -h` and `df -i` there tell): make room, {_ELSEWHERE}",
    ),
    ("File name too long", "Use a shorter job.output_path or benchmark name"),
)
_NOISE = re.compile(r"^(?:\S*bash|main|environment): (?:line \d+: )?")
_OURS = re.compile(r"/\.gym_tmp\.[0-9a-f]+\.")
_REPEATED = re.compile(r"fork: retry: |Broken pipe")
_LONGEST = 1000


def told(text: str) -> str:
    """The text of a failed script as one line for people, with the cure when the trouble is known. No full stop."""
    lines = [_OURS.sub("/", _NOISE.sub("", line.strip())) for line in text.splitlines()]
    said = "; ".join(dict.fromkeys(line for line in lines if line and not _REPEATED.search(line)))
    return ". ".join(filter(None, (said[:_LONGEST] or ("" if cure(text) else "nothing says why"), cure(text))))


def cure(text: str) -> str:
    """What to do about a trouble that the text names, and nothing else of it; "" for none that is known."""
    return next((words for pattern, words in _CURES if re.search(pattern, text)), "")
