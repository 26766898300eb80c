"""What all commands share: how they end, and where their words go.

Results go to standard output, what is wrong to standard error; with --json one object goes to standard output in any
case, with `ok` in it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, NoReturn

WELL, PROBLEM, NO_WAY = 0, 1, 2
_CLOSED = 128 + signal.SIGPIPE
"""The status of a program that SIGPIPE has ended, as a shell shows it."""


class CommandEnds(Exception):
    """The command is over. `status`: its exit status; `text` is for people, `fields` for --json."""

    def __init__(self, status: int, text: str = "", **fields: Any) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.fields = fields


def unusable(text: str) -> CommandEnds:
    """The end of a command that was called wrongly, or cannot reach what it needs."""
    return CommandEnds(NO_WAY, text, error=text)


def refused(text: str, **fields: Any) -> CommandEnds:
    """The end of a command that has found a problem."""
    return CommandEnds(PROBLEM, text, error=text, **fields)


Shown = tuple[int, Mapping[str, Any], Callable[[], None]]
"""What a command found: exit status, fields for --json, and a function that prints them for people."""


def command(work: Callable[[argparse.Namespace], Shown]) -> Callable[[argparse.Namespace], NoReturn]:
    """Make an Airflow command of a function; it ends the process with the exit status."""

    @wraps(work)
    def run(args: argparse.Namespace) -> NoReturn:
        _logs_to_stderr()
        try:
            status = _run(work, args)
            sys.stdout.flush()
        except KeyboardInterrupt:
            raise SystemExit(130) from None
        except BrokenPipeError:  # nobody reads any more, as behind `| head`; Python ignores the signal that ends others
            for stream in (sys.stdout, sys.stderr):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            raise SystemExit(_CLOSED) from None
        raise SystemExit(status)

    return run


def _run(work: Callable[[argparse.Namespace], Shown], args: argparse.Namespace) -> int:
    """Do the work and print what it found; the exit status."""
    try:
        status, fields, show = work(args)
    except CommandEnds as end:
        if args.as_json:
            _print_json(end.status, end.fields)
        elif end.text:
            print(printable(end.text), file=sys.stderr)
        return end.status
    if args.as_json:
        _print_json(status, fields)
    else:
        show()
    return status


def printable(text: object) -> str:
    """`text` for a terminal: what would move its cursor, colour or name it is shown as an escape instead. Files and
    Slurm may say anything, and so may those who wrote them.
    """
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", lambda sign: f"\\x{ord(sign[0]):02x}", str(text))


def _print_json(status: int, fields: Mapping[str, Any]) -> None:
    print(json.dumps({"ok": status == WELL, **fields}, indent=2, default=str))


def _logs_to_stderr() -> None:
    """Airflow's loggers print to standard output; what a script reads there is to be the result alone."""
    import logging

    import structlog

    for handler in logging.getLogger().handlers:  # Airflow has a function for this, but only from 3.3.1 on
        if isinstance(handler, logging.StreamHandler) and handler.stream is sys.stdout:
            handler.setStream(sys.stderr)
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    ours = logging.getLogger("airflow_gym_provider")
    ours.handlers = [logging.StreamHandler(sys.stderr)]
    ours.setLevel(logging.INFO)
    ours.propagate = False
