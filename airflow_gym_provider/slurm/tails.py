"""New lines of a job's log, read from where the last look stopped, without the job's secrets.

Whoever reads them (a triggerer) must not know the secrets, and what it knows is stored in a database. So they are taken
out on the login node, by the list that the job's own job.sh carries in its last line (`hidden_line`): that file is
private and holds them anyway. Without that line nothing is read. Lines are taken whole, so that no secret is cut in
two; of a burst only the last 16 KB are shown, of a line the first 2,000 characters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from airflow_gym_provider.config.hiding import shapes
from airflow_gym_provider.jobscript.quoting import quote
from airflow_gym_provider.slurm.progress import FILE_SECONDS
from airflow_gym_provider.slurm.remote import Frames

__all__ = ["LogTail", "TailNews", "hidden_line", "last_lines_body", "read_tails", "tails_body"]

MOST_BYTES = 16 * 1024
MOST_CHARS = 2_000


@dataclass(frozen=True)
class LogTail:
    """A log, how many of its bytes have been seen, and the job script that says what to hide.

    `skipping`: that place is in the middle of a line too long to be shown.
    """

    path: str
    job_script: str
    offset: int = 0
    skipping: bool = False


@dataclass(frozen=True)
class TailNews:
    """New text of a log, and where to go on. `left_out`: bytes that were too many. `refused`: job.sh has no list."""

    tail: LogTail
    text: str = ""
    left_out: int = 0
    refused: bool = False


def hidden_line(secrets: Iterable[str]) -> str:
    """The last line of a job.sh whose log may be followed: what is to be taken out of it, as escaped bytes.

    A secret of several lines is hidden line by line, each in all its shapes: see `config.hiding`.
    """
    words = ["".join(f"\\x{byte:02x}" for byte in text.encode()) for text in shapes(secrets) if "\n" not in text]
    return f"# hidden {' '.join([str(len(words)), *words, '.'])}\n"


def tails_body(tails: Mapping[str, LogTail], once: Callable[[str], str] = str) -> str:
    """Bash that reads on in each log; "" for none. Never fails: a log that is not there has no news.

    `once` gives back "" for functions that the shell has.
    """
    calls = [
        f"_gym_tail {index} {quote(tail.path)} {tail.offset} {int(tail.skipping)} {quote(tail.job_script)} {MOST_BYTES}"
        for index, tail in enumerate(tails.values())
    ]
    if not calls:
        return ""
    return "\n".join([once(_functions()), "_gym_tails() {", *calls, "}", f"aside files {FILE_SECONDS} _gym_tails"])


def last_lines_body(paths: Iterable[str], job_script: str, lines: int) -> str:
    """Bash that prints each log's last `lines`, at most 16 KB of whole ones, as frame "last SIZE": its path, then they.

    What the job's own job.sh lists is taken out; of one that lists nothing they come as they are.
    """
    files = " ".join(map(quote, paths))
    return f"{_functions()}\n_gym_last {quote(job_script)} {MOST_BYTES} {lines} {files}"


def read_tails(tails: Mapping[str, LogTail], frames: Frames) -> dict[str, TailNews]:
    """News by key, for those logs that have some. Never raises; of an answer that broke off the last log is left out,
    for the next look.
    """
    keys = dict(zip(map(str, range(len(tails))), tails, strict=True))
    found: dict[str, TailNews] = {}
    for number, frame in enumerate(frames):
        key = keys.get(frame.arg(0))
        broken_off = not frames.complete if number == len(frames) - 1 else frames[number + 1].name == "late"
        if key is None or broken_off:
            continue
        if frame.name == "tail.refused":
            found[key] = TailNews(tails[key], refused=True)
        elif frame.name == "tail" and all(frame.arg(place).isdecimal() for place in (1, 2, 3)):
            tail = replace(tails[key], offset=int(frame.arg(1)), skipping=frame.arg(2) == "1")
            found[key] = TailNews(tail, _capped(frame.text), int(frame.arg(3)))
    return found


def _capped(text: str) -> str:
    lines = text.split("\n")
    return "\n".join(
        line if len(line) <= MOST_CHARS else f"{line[:MOST_CHARS]} … ({len(line) - MOST_CHARS} more characters)"
        for line in lines
    ).rstrip("\n")


@cache
def _functions() -> str:
    return Path(__file__).with_name("tails.sh").read_text(encoding="utf-8")
