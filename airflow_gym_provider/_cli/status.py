"""`airflow gym status`: what became of a run, read from its directory and from Slurm."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_gym_provider._cli.cluster import cluster
from airflow_gym_provider._cli.command import PROBLEM, WELL, Shown, command, printable
from airflow_gym_provider._cli.find import FoundRun, find_run
from airflow_gym_provider._cli.table import show_lines, table
from airflow_gym_provider.chain import Action, ChainLook, Decision, decide
from airflow_gym_provider.results import judge

if TYPE_CHECKING:
    from airflow_gym_provider.hooks.slurm import SlurmHook

_PAUSE = 5.0
_GOING_ON = ("queued", "running", "unknown")


@command
def run(args: argparse.Namespace) -> Shown:
    """One look, or with --watch one after the other. Status 1 when a chain is over without its results."""
    with cluster(args.conn_id) as hook:
        found = find_run(hook, args.target, args.benchmarks)
        rows = _watch(hook, found) if args.watch else _rows(hook, found)
    fields = {"run_dir": found.run_dir, "owner": found.key.dag_id, "run_id": found.key.run_id, "benchmarks": rows}
    status = PROBLEM if any(row["state"] in ("stopped", "ended") for row in rows) else WELL

    def show() -> None:
        if not (args.watch and sys.stdout.isatty()):
            _show(rows)

    return status, fields, show


def _rows(hook: SlurmHook, found: FoundRun) -> list[dict[str, Any]]:
    look = found.look(hook, anybodys=True)
    for problem in look.problems:
        print(f"warning: {printable(problem)}", file=sys.stderr)
    return [_row(found, look.chains[place.benchmark]) for place in found.places]


def _row(found: FoundRun, look: ChainLook) -> dict[str, Any]:
    limits = found.limits(look.place.benchmark)
    verdict = judge(look.survey, look.place.results) if look.survey is not None and look.place.results else None
    decision = decide(look.history(), limits, verdict)
    return {
        "benchmark": look.place.benchmark,
        "state": _state(look, decision, resumed_by_nobody=found.from_a_shell),
        "reason": decision.reason,
        "jobs": [
            {
                "job_id": job.ref.key,
                "state": job.ending.value if job.ending else job.state,
                "elapsed": job.elapsed,
                "reason": job.reason,
            }
            for job in look.jobs
        ],
        "walltime_used": sum(job.elapsed for job in look.jobs),
        "max_walltime": limits.max_walltime,
        "rollouts_done": look.survey.done if look.survey else 0,
        "rollouts_expected": look.survey.expected if look.survey else None,
        "metrics": dict(look.survey.metrics) if look.survey else {},
        "job_dir": look.place.job_dir,
    }


def _state(look: ChainLook, decision: Decision, *, resumed_by_nobody: bool) -> str:
    """complete, stopped (over and red), ended (nobody goes on with it), resumable, queued, running, new or unknown."""
    if decision.action is Action.DONE:
        return "complete"
    if decision.action is Action.STOP:
        return "stopped"
    if decision.action is Action.ADOPT:
        newest = look.jobs[-1]
        return "queued" if newest.state.startswith("PENDING") else "running"
    if decision.action is Action.WAIT:
        return "unknown"
    if not look.jobs:
        return "new"
    return "ended" if resumed_by_nobody else "resumable"


def _watch(hook: SlurmHook, found: FoundRun) -> list[dict[str, Any]]:
    """Look again until nothing goes on; on a terminal the table moves, else a line for each change."""
    pause = max(_PAUSE, hook.poll_floor)
    rows = _rows(hook, found)
    if sys.stdout.isatty():
        from rich.live import Live

        with Live(table(rows), auto_refresh=False) as live:
            while _goes_on(rows):
                time.sleep(pause)
                rows = _rows(hook, found)
                live.update(table(rows), refresh=True)
        return rows
    said: Sequence[Mapping[str, Any]] = ()
    while _goes_on(rows):
        if rows != said:
            show_lines(rows, sys.stderr)
            said = rows
        time.sleep(pause)
        rows = _rows(hook, found)
    return rows


def _goes_on(rows: Sequence[Mapping[str, Any]]) -> bool:
    return any(row["state"] in _GOING_ON for row in rows)


def _show(rows: Sequence[Mapping[str, Any]]) -> None:
    if not sys.stdout.isatty():
        show_lines(rows, sys.stdout)
        return
    from rich.console import Console

    Console().print(table(rows))
