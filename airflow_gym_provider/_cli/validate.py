"""`airflow gym validate`: every problem of a config at once, before anything else is touched."""

from __future__ import annotations

import argparse
import sys

from airflow_gym_provider._cli.command import WELL, Shown, command
from airflow_gym_provider._cli.config import invalid, load
from airflow_gym_provider.config import SubmitConfigError
from airflow_gym_provider.config.errors import gathering
from airflow_gym_provider.jobscript import render_job_script


@command
def run(args: argparse.Namespace) -> Shown:
    """Check a config as a submission would, up to its job scripts. Raises CommandEnds."""
    loaded = load(args, any_env=args.any_env)
    config = loaded.config
    try:
        with gathering() as part:
            for name in loaded.benchmarks:
                with part():
                    render_job_script(config, name, f"{config.job.output_path}/gym-job/{name}")
    except SubmitConfigError as err:
        raise invalid(err) from None
    fields = {
        "cluster": config.cluster_name,
        "benchmarks": list(loaded.benchmarks),
        "warnings": list(loaded.warnings),
        "config": config.resolved(),
    }

    def show() -> None:
        for warning in loaded.warnings:
            print(f"warning: {warning}", file=sys.stderr)
        if args.resolved:
            print(config.resolved_yaml(), end="")
            return
        count = len(loaded.benchmarks)
        names = ", ".join(loaded.benchmarks)
        print(f"valid: {count} benchmark{'s' if count > 1 else ''} ({names}) on compute.{config.cluster_name}")

    return WELL, fields, show
