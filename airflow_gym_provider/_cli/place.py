"""Where a run lies that was queued from a shell, and who it is."""

from __future__ import annotations

import argparse
import posixpath
import secrets
from datetime import UTC, datetime

from airflow_gym_provider._cli.command import unusable
from airflow_gym_provider.chain import ChainKey, check_path, run_dir_name
from airflow_gym_provider.config import SubmitConfig

OWNER = "airflow gym submit"
"""What stands for the DAG in the identity of such a run."""


def run_place(args: argparse.Namespace, config: SubmitConfig) -> tuple[str, ChainKey]:
    """The run directory and the identity of its chains: a function of the directory, so that one is queued once.

    Without --name and --run-dir it is a new one each time. Raises CommandEnds for a path that cannot be one.
    """
    if args.name and args.run_dir:
        raise unusable("--name and --run-dir both say where: give one of them")
    if args.name and ("/" in args.name or args.name in (".", "..")):
        raise unusable(f"--name {args.name!r} is a path; --run-dir takes one")
    name = args.name or run_dir_name(_key(secrets.token_hex(16)), datetime.now(UTC))
    path = posixpath.normpath(args.run_dir or posixpath.join(config.job.output_path, name))
    try:
        check_path("--run-dir" if args.run_dir else "the run directory", path)
    except ValueError as err:
        raise unusable(str(err)) from None
    return path, _key(path)


def _key(path: str) -> ChainKey:
    return ChainKey(dag_id=OWNER, run_id=path, group="")
