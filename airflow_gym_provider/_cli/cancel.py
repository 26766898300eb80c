"""`airflow gym cancel`: end what lives of a run, by id and by name."""

from __future__ import annotations

import argparse
import getpass
from collections.abc import Mapping
from typing import TYPE_CHECKING

from airflow_gym_provider._cli.cluster import cluster
from airflow_gym_provider._cli.command import PROBLEM, WELL, Shown, command, printable
from airflow_gym_provider._cli.find import FoundRun, find_run, refuse_stranger
from airflow_gym_provider.chain import BY_HAND, Action, CancelReport, ChainLook, cancel_script, decide, read_cancel
from airflow_gym_provider.results import judge

if TYPE_CHECKING:
    from airflow_gym_provider.hooks.slurm import SlurmHook

_TIMEOUT = 120.0
_GOES_ON = "; its task in Airflow goes on with another, if it has not been marked: mark that"


@command
def run(args: argparse.Namespace) -> Shown:
    """Cancel, and look again until nothing is left. Status 1 when something is left, or scancel had trouble.

    A DAG's task that waits for such a job stops its chain, as after a scancel.
    """
    with cluster(args.conn_id) as hook:
        found = find_run(hook, args.target, args.benchmarks)
        look = found.look(hook)
        refuse_stranger(args.target, look)
        chains = look.chains
        reports = _cancel(hook, found, chains)
    resumed = [] if found.from_a_shell else [name for name, look in chains.items() if _goes_on(found, look)]
    troubled = any(report.left or report.trouble for report in reports.values())
    rows = [
        {
            "benchmark": name,
            "cancelled": list(report.cancelled),
            "ended": list(report.ended),
            "left": list(report.left),
            "trouble": report.trouble,
            "resumed_by_its_task": name in resumed,
        }
        for name, report in reports.items()
    ]

    def show() -> None:
        for name, report in reports.items():
            print(f"{name}: {printable(report.text)}{_GOES_ON if name in resumed else ''}")

    return PROBLEM if troubled else WELL, {"run_dir": found.run_dir, "benchmarks": rows}, show


def _cancel(hook: SlurmHook, found: FoundRun, chains: Mapping[str, ChainLook]) -> dict[str, CancelReport]:
    """What came of it, by benchmark. One that is certainly over is left alone: scancel would not say so."""
    places = [place for place in found.places if _may_live(chains[place.benchmark])]
    reports = {name: CancelReport(ended=tuple(job.ref.key for job in look.jobs)) for name, look in chains.items()}
    if places:
        why = f"{BY_HAND}airflow gym cancel by {getpass.getuser()}"
        script = cancel_script(places, why, clusters=found.clusters, **hook.script_options)
        reports |= read_cancel(script, hook.run(script, _TIMEOUT), places)
    return reports


def _goes_on(found: FoundRun, look: ChainLook) -> bool:
    """Whether a chain without a live job is between two: its task will queue the next."""
    verdict = judge(look.survey, look.place.results) if look.survey is not None and look.place.results else None
    idle = bool(look.jobs) and not _may_live(look)
    return idle and decide(look.history(), found.limits(look.place.benchmark), verdict).action is Action.SUBMIT


def _may_live(look: ChainLook) -> bool:
    """Whether a job is there, or may come of a submission that was cut off.

    An id under which Slurm knows no job of this directory is none, though the directory, or a copy of it, has it.
    """
    return look.wait is not None or bool(look.found) or look.may_live
