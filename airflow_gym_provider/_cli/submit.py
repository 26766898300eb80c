"""`airflow gym submit`: queue every benchmark of a config, once."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk.exceptions import AirflowFailException

from airflow_gym_provider._cli.cluster import cluster
from airflow_gym_provider._cli.command import NO_WAY, PROBLEM, WELL, CommandEnds, Shown, command, printable, refused
from airflow_gym_provider._cli.config import Loaded, invalid, load
from airflow_gym_provider._cli.place import run_place
from airflow_gym_provider.config import SubmitConfigError
from airflow_gym_provider.exceptions import ChainRetry
from airflow_gym_provider.operators._queue import RunQueue

_log = logging.getLogger(__name__)


@command
def run(args: argparse.Namespace) -> Shown:
    """Queue what is not queued yet in the run directory, and show its record. Raises CommandEnds."""
    loaded = load(args)
    config = loaded.config
    for warning in loaded.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    run_dir, key = run_place(args, config)
    try:
        environ = config.forwarded_environ(os.environ)
    except SubmitConfigError as err:
        raise invalid(err) from None
    # Said first: with it the same command can be given again when the connection ends in the middle.
    print(f"run directory: {run_dir}", file=sys.stderr)
    with cluster(args.conn_id, config.cluster.hostname) as hook:
        queue = RunQueue(hook, config, key=key, run_dir=run_dir, extra={"submitter": key.dag_id}, log=_log)
        errors = _queue(queue, loaded, environ)
        record = _record(queue, loaded.benchmarks, errors)
    return PROBLEM if errors else WELL, record | {"errors": errors}, lambda: _show(record, errors)


def _queue(queue: RunQueue, loaded: Loaded, environ: Mapping[str, str]) -> dict[str, str]:
    """Why benchmarks were refused for good; empty when all are queued."""
    errors: dict[str, str] = {}
    again = f"nothing is queued twice when you give the same command with --run-dir {queue.run_dir}"
    try:
        queue.queue(loaded.benchmarks, environ, errors)
    except ChainRetry as err:
        raise CommandEnds(NO_WAY, f"{err}; try again later: {again}", error=str(err), run_dir=queue.run_dir) from None
    except AirflowFailException as err:
        raise refused(str(err), run_dir=queue.run_dir) from None
    return errors


def _record(queue: RunQueue, benchmarks: Sequence[str], errors: Mapping[str, str]) -> dict[str, Any]:
    try:
        return queue.record([name for name in benchmarks if name not in errors])
    except ChainRetry as err:
        if errors:
            return {"run_dir": queue.run_dir, "benchmarks": []}
        raise CommandEnds(NO_WAY, str(err), error=str(err), run_dir=queue.run_dir) from None


def _show(record: Mapping[str, Any], errors: Mapping[str, str]) -> None:
    for entry in record["benchmarks"]:
        if entry.get("job_id"):
            print(f"{entry['benchmark']}: job {entry['job_id']} in {entry['job_dir']}")
    for name, error in errors.items():
        print(f"{name}: {printable(error)}", file=sys.stderr)
