"""A run's benchmarks for people: a table with progress bars on a terminal, a line each in a pipe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from airflow_gym_provider._cli.command import printable
from airflow_gym_provider.config.durations import format_duration

if TYPE_CHECKING:
    from rich.console import Group

_COLOURS = {"complete": "green", "stopped": "red", "ended": "red", "running": "cyan", "queued": "yellow"}


def show_lines(rows: Sequence[Mapping[str, Any]], file: TextIO) -> None:
    """One line for each benchmark: name, state, job, rollouts, walltime, reason."""
    for row in rows:
        parts = [
            row["benchmark"],
            row["state"],
            f"job {_jobs(row)}",
            f"rollouts {_rollouts(row)}",
            f"walltime {_walltime(row)}",
        ]
        print("  ".join(part for part in map(printable, parts) if part), _reason(row), sep="  ", file=file)


def table(rows: Sequence[Mapping[str, Any]]) -> Group:
    """The same with a bar for the rollouts, and the reasons below."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("benchmark", "state", "job", "walltime", "rollouts"):
        grid.add_column(name, overflow="fold", no_wrap=name != "benchmark")
    grid.add_column("")
    for row in rows:
        expected = row["rollouts_expected"]
        bar = ProgressBar(total=max(expected or 0, 1), completed=min(row["rollouts_done"], expected or 0), width=16)
        state = Text(row["state"], style=_COLOURS.get(row["state"], ""))
        texts = (Text(printable(text)) for text in (_jobs(row), _walltime(row), _rollouts(row)))
        grid.add_row(Text(row["benchmark"]), state, *texts, bar)
    reasons = [Text(f"{row['benchmark']}: {_reason(row)}") for row in rows]
    return Group(grid, Text(), *reasons)


def _reason(row: Mapping[str, Any]) -> str:
    return printable(" ".join(str(row["reason"]).split()))


def _jobs(row: Mapping[str, Any]) -> str:
    """The newest job, and how many there were."""
    jobs = row["jobs"]
    if not jobs:
        return "none"
    more = f" (no. {len(jobs)})" if len(jobs) > 1 else ""
    return f"{jobs[-1]['job_id']} {jobs[-1]['state'] or 'unknown'}{more}"


def _rollouts(row: Mapping[str, Any]) -> str:
    if not row["rollouts_done"] and row["rollouts_expected"] is None:
        return "none yet"
    expected = "?" if row["rollouts_expected"] is None else row["rollouts_expected"]
    return f"{row['rollouts_done']} of {expected}"


def _walltime(row: Mapping[str, Any]) -> str:
    used = format_duration(row["walltime_used"])
    return f"{used} of {format_duration(row['max_walltime'])}" if row["max_walltime"] else used
