"""`airflow gym …`: check, render and queue a submit config from a shell, and look after what was queued.

This module is imported by every `airflow` command there is, so it only describes; the commands are in `_cli`.
"""

from __future__ import annotations

from airflow.cli.cli_config import ActionCommand, Arg, CLICommand, GroupCommand, lazy_load_command

_EXITS = "Exit status: 0 well, 1 a problem was found, 2 wrong usage or the cluster cannot be reached."

_STATUS_EXITS = (
    "Exit status: 0 nothing is wrong so far, with --watch every benchmark is complete; 1 a benchmark has stopped, has "
    "ended and nobody resumes it, or was refused when a shell submitted it, with --watch any is not complete; 2 wrong "
    "usage or the cluster cannot be reached. What a DAG's task does between two jobs is waited for with --watch, until "
    "none has gone on for an hour."
)

_WORDS = Arg(
    ("words",),
    nargs="+",
    metavar="CONFIG|KEY=VALUE",
    help="config files, later over earlier, and overrides in Hydra's grammar, as for `gym eval submit`; all of them "
    "before the options or all of them after",
)
_JSON = Arg(("--json",), action="store_true", dest="as_json", help="print one JSON object")
_CONN_ID = Arg(
    ("--conn-id",),
    metavar="ID",
    help="connection (slurm or ssh) of the cluster; without it Slurm's commands are on this machine",
)
_BENCHMARK = Arg(
    ("-b", "--benchmark"),
    action="append",
    metavar="NAME",
    dest="benchmarks",
    help="only this one; may be repeated",
)
_ANY_ENV = Arg(
    ("--any-env",),
    action="store_true",
    help="do not ask for variables of `host:` that are not set here, but where the config will be used",
)
_TEMPLATE = Arg(
    ("--template",),
    action="append",
    metavar="NAME=VALUE",
    dest="templates",
    help="a value for the Jinja in config files, such as ds=2026-01-31 or params.model=/ckpt/7; may be repeated",
)
_NAME = Arg(("--name",), help="name of the run directory below job.output_path; the same name is queued once")
_RUN_DIR = Arg(("--run-dir",), metavar="PATH", help="the run directory itself; the same directory is queued once")
_TARGET = Arg(("target",), metavar="RUN_DIR|JOB_ID", help="a run directory, a benchmark's directory, or a Slurm job id")
_OUT = Arg(("--out",), metavar="DIR", help="write DIR/<benchmark>/job.sh (mode 0600) instead of printing")
_SECRETS = Arg(
    ("--secrets",),
    action="store_true",
    help="put the values of `host:` into the scripts, as a submission does; else their names stand there",
)
_RESOLVED = Arg(("--resolved",), action="store_true", help="print the config with everything filled in, as YAML")
_WATCH = Arg(
    ("--watch",),
    action="store_true",
    help="look again until every benchmark has ended; then 0 only if each is complete",
)


def get_gym_commands() -> list[CLICommand]:
    """What Airflow adds to its command line; named in get_provider_info."""
    config = [_WORDS, _BENCHMARK, _CONN_ID, _TEMPLATE]
    commands = (
        ActionCommand(
            "validate",
            "Check a submit config; needs no database and no cluster",
            lazy_load_command("airflow_gym_provider._cli.validate.run"),
            (*config, _ANY_ENV, _RESOLVED, _JSON),
            epilog=_EXITS,
        ),
        ActionCommand(
            "render",
            "Show each benchmark's job.sh; needs no database and no cluster",
            lazy_load_command("airflow_gym_provider._cli.render.run"),
            (*config, _ANY_ENV, _NAME, _RUN_DIR, _OUT, _SECRETS, _JSON),
            epilog=_EXITS,
        ),
        ActionCommand(
            "submit",
            "Queue every benchmark, exactly once for a name or a run directory",
            lazy_load_command("airflow_gym_provider._cli.submit.run"),
            (*config, _NAME, _RUN_DIR, _JSON),
            epilog=_EXITS,
        ),
        ActionCommand(
            "status",
            "Show what became of a run: jobs, walltime used, rollouts n of m",
            lazy_load_command("airflow_gym_provider._cli.status.run"),
            (_TARGET, _BENCHMARK, _CONN_ID, _WATCH, _JSON),
            epilog=_STATUS_EXITS,
        ),
        ActionCommand(
            "cancel",
            "Cancel the jobs of a run, by id and by name",
            lazy_load_command("airflow_gym_provider._cli.cancel.run"),
            (_TARGET, _BENCHMARK, _CONN_ID, _JSON),
            epilog=_EXITS,
        ),
    )
    return [GroupCommand(name="gym", help="Run gym evaluations on Slurm", subcommands=commands)]
