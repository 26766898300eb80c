"""`airflow gym render`: each benchmark's job.sh, as a submission would stage it."""

from __future__ import annotations

import argparse
import os
import posixpath
import sys
from pathlib import Path

from airflow_gym_provider._cli.command import WELL, Shown, command, unusable
from airflow_gym_provider._cli.config import invalid, load
from airflow_gym_provider._cli.place import run_place
from airflow_gym_provider.config import SubmitConfigError
from airflow_gym_provider.config.errors import gathering
from airflow_gym_provider.jobscript import render_job_script

_EXAMPLE = "gym-job-example"


@command
def run(args: argparse.Namespace) -> Shown:
    """Print or write the scripts. Without --secrets, names stand for what was read from the environment."""
    loaded = load(args, any_env=args.any_env or not args.secrets, hide=not args.secrets)
    if not args.name and not args.run_dir:
        args.name = _EXAMPLE  # the same text each time, so that two of them can be compared
    run_dir, _ = run_place(args, loaded.config)
    scripts: dict[str, str] = {}
    try:
        with gathering() as part:
            for name in loaded.benchmarks:
                with part():
                    scripts[name] = render_job_script(loaded.config, name, posixpath.join(run_dir, name))
    except SubmitConfigError as err:
        raise invalid(err) from None
    written = {name: _write(Path(args.out) / name / "job.sh", text) for name, text in scripts.items() if args.out}
    fields = {
        "run_dir": run_dir,
        "warnings": list(loaded.warnings),
        "scripts": written or scripts,
    }

    def show() -> None:
        for warning in loaded.warnings:
            print(f"warning: {warning}", file=sys.stderr)
        for path in written.values():
            print(path)
        for name, text in scripts.items() if not written else ():
            if len(scripts) > 1:
                print(f"### {name}: {posixpath.join(run_dir, name)}/job.sh")
            print(text, end="")

    return WELL, fields, show


def _write(path: Path, text: str) -> str:
    """Write a script that nobody else can read, whatever was there before."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:  # noqa: PTH123
            file.write(text)
    except OSError as err:
        raise unusable(f"{path} cannot be written: {err.strerror}") from None
    return str(path)
