"""How far a running evaluation is, counted from where the last count stopped.

Rollout files grow to hundreds of megabytes; a look reads only what is new, and of one file at most 64 MB.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath

from airflow_gym_provider.jobscript.quoting import quote
from airflow_gym_provider.slurm.remote import Frames

__all__ = ["FILE_SECONDS", "Progress", "beside", "files_late", "parse_progress", "progress_body"]

FILE_SECONDS = 60
"""How long one look may take over files: beyond, their file system hangs, and jobs are watched without it."""

_LINE = re.compile(r"(\d+) +(\d+) +(\d+)")


@dataclass(frozen=True)
class Progress:
    """Rollouts written and expected, and how many bytes of either file that count covers.

    `expected` is 0 until the servers of a benchmark are up. Give the last `Progress` back to the next look.
    """

    rollouts_path: str
    done: int = 0
    offset: int = 0
    expected: int = 0
    expected_offset: int = 0

    @property
    def inputs_path(self) -> str:
        """The file that lists the expected rollouts: beside the rollouts, named after them."""
        return beside(self.rollouts_path, "_materialized_inputs.jsonl")


def beside(rollouts_path: str, ending: str) -> str:
    """A file that gym writes beside the rollouts: named after them, without their suffix (pathlib's `stem`)."""
    path = PurePosixPath(rollouts_path)
    return str(path.with_name(path.stem + ending)) if path.name else f"{rollouts_path}{ending}"


def progress_body(progress: Mapping[str, Progress], once: Callable[[str], str] = str) -> str:
    """Bash that counts for each job key; "" for none. Never fails: an unreadable file counts as empty.

    `once` gives back "" for functions that the shell has.
    """
    words = []
    for index, item in enumerate(progress.values()):
        words += [str(index), quote(item.rollouts_path), str(item.offset)]
        words += [quote(item.inputs_path), str(item.expected_offset)]
    return f"{once(_functions())}\naside files {FILE_SECONDS} _gym_progress {' '.join(words)}" if words else ""


def files_late(frames: Frames) -> str:
    """What is to be said when files could not be read in time; "" when they could."""
    late = next((frame for frame in frames.named("late") if frame.arg(0) == "files"), None)
    if late is None:
        return ""
    return (
        f"rollouts and logs could not be read within {late.arg(1)} s: a file system hangs on the login node. Jobs are "
        "watched without them, which are tried again every ten minutes"
    )


def parse_progress(progress: Mapping[str, Progress], frames: Frames) -> dict[str, Progress]:
    """The new counts for each job key; the old ones where no whole answer came."""
    answers = {frame.arg(0): frame.text for frame in frames.named("progress")}
    found = {}
    for index, (key, item) in enumerate(progress.items()):
        lines = [_LINE.fullmatch(line.strip()) for line in answers.get(str(index), "").split("\n")[:2]]
        if len(lines) == 2 and lines[0] and lines[1]:
            done, offset = _added(lines[0], item.done)
            expected, expected_offset = _added(lines[1], item.expected)
            found[key] = Progress(item.rollouts_path, done, offset, expected, expected_offset)
        else:
            found[key] = item
    return found


def _added(line: re.Match[str], before: int) -> tuple[int, int]:
    size, start, lines = (int(part) for part in line.groups())
    return (before if start else 0) + lines, size  # counted from 0: the file is new, or was written anew


@cache
def _functions() -> str:
    return Path(__file__).with_name("progress.sh").read_text(encoding="utf-8")
