"""`airflow gym status`: what became of a run, read from its directory and from Slurm."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from airflow_gym_provider._cli.cluster import cluster
from airflow_gym_provider._cli.command import PROBLEM, WELL, Shown, command
from airflow_gym_provider._cli.find import find_run
from airflow_gym_provider._cli.table import show_lines, table
from airflow_gym_provider._cli.watch import WatchedRun

_PAUSE = 5.0
_OVER = ("stopped", "ended")
_BY_ITSELF = ("queued", "running", "unknown")
_BY_ITS_TASK = ("resumable", "new")
_IDLE = 3600.0
"""Seconds for which --watch waits for a DAG's tasks to go on, while nothing else happens. A submit limit may keep them
that long; a DAG that is paused, or a task that somebody has marked, goes on never.
"""


@command
def run(args: argparse.Namespace) -> Shown:
    """One look, or with --watch one after the other.

    Status 1 when something is wrong: a chain is over without its results, or was never queued and nobody will. With
    --watch also when, at the end, a benchmark is anything but complete.
    """
    with cluster(args.conn_id) as hook:
        found = find_run(hook, args.target, args.benchmarks)
        watched = WatchedRun(hook, found)
        rows = _watch(watched, max(_PAUSE, hook.poll_floor)) if args.watch else watched.rows()
    fields = {"run_dir": found.run_dir, "owner": found.key.dag_id, "run_id": found.key.run_id, "benchmarks": rows}
    wrong = any(_is_wrong(row, by_nobody=found.from_a_shell) for row in rows)
    if args.watch:
        wrong = any(row["state"] != "complete" for row in rows)

    def show() -> None:
        if not (args.watch and sys.stdout.isatty()):
            _show(rows)

    return PROBLEM if wrong else WELL, fields, show


def _is_wrong(row: Mapping[str, Any], *, by_nobody: bool) -> bool:
    """Whether a benchmark comes to nothing any more; of what was queued from a shell `by_nobody` queues anything."""
    return row["state"] in _OVER or (by_nobody and row["state"] in _BY_ITS_TASK)


def _watch(watched: WatchedRun, pause: float) -> list[dict[str, Any]]:
    """Look again until nothing goes on; on a terminal the table moves, else a line for each change."""
    wait = _Wait(by_nobody=watched.found.from_a_shell)
    rows = watched.rows()
    if sys.stdout.isatty():
        from rich.live import Live

        with Live(table(rows), auto_refresh=False) as live:
            while wait.goes_on(rows):
                time.sleep(pause)
                rows = watched.rows()
                live.update(table(rows), refresh=True)
        return rows
    said: Sequence[Mapping[str, Any]] = ()
    while wait.goes_on(rows):
        if rows != said:
            show_lines(rows, sys.stderr)
            said = rows
        time.sleep(pause)
        rows = watched.rows()
    return rows


class _Wait:
    """How long there is something to wait for. What jobs do is waited for without end; what a DAG's tasks have to do
    between two jobs, for an hour after the last change.
    """

    def __init__(self, *, by_nobody: bool) -> None:
        self.by_nobody = by_nobody
        self._rows: Sequence[Mapping[str, Any]] = ()
        self._since = 0.0

    def goes_on(self, rows: Sequence[Mapping[str, Any]]) -> bool:
        """Whether another look may find more than `rows`."""
        if rows != self._rows:
            self._rows, self._since = rows, time.monotonic()
        if any(row["state"] in _BY_ITSELF for row in rows):
            return True
        if self.by_nobody or not any(row["state"] in _BY_ITS_TASK for row in rows):
            return False
        if time.monotonic() < self._since + _IDLE:
            return True
        print(f"no task in Airflow has gone on for {_IDLE / 60:.0f} minutes: look there", file=sys.stderr)
        return False


def _show(rows: Sequence[Mapping[str, Any]]) -> None:
    if not sys.stdout.isatty():
        show_lines(rows, sys.stdout)
        return
    from rich.console import Console

    Console().print(table(rows))
