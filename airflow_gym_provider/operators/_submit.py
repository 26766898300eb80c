"""Queue benchmarks of one config in one round trip, and put into words what came of it."""

from __future__ import annotations

import getpass
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from importlib import metadata
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException

from airflow_gym_provider.chain import (
    ChainError,
    ChainKey,
    Outcome,
    OutcomeKind,
    RecordHead,
    RunFiles,
    StagedFile,
    Submission,
    SubmitReport,
    read_submit,
    submit_script,
)
from airflow_gym_provider.chain.place import ASKED_FILE
from airflow_gym_provider.config import SubmitConfig, SubmitConfigError
from airflow_gym_provider.exceptions import ChainRetry
from airflow_gym_provider.jobscript import render_job_script
from airflow_gym_provider.operators._asked import asked_of
from airflow_gym_provider.slurm.keys import job_key
from airflow_gym_provider.slurm.refusals import Refusal, read_sbatch
from airflow_gym_provider.slurm.remote import Answer
from airflow_gym_provider.slurm.tails import hidden_line

if TYPE_CHECKING:
    from airflow_gym_provider.hooks.slurm import SlurmHook

SUBMIT_TIMEOUT = 600.0
_NO_CLUSTER = re.compile(r"No cluster '[^']*' known by database")
_BUSY_AGAIN = 10.0
_SITE_WORDS = "Those are this site's own words: ask whoever runs the cluster when they do not tell what to change"


def job_files(
    config: SubmitConfig, benchmark: str, job_dir: str, hidden: Iterable[str] | None = None
) -> tuple[StagedFile, ...]:
    """The files of one benchmark's directory. `hidden`: what to take out of its log when that is followed; the job
    script then lists it. Raises AirflowFailException for what cannot be rendered.
    """
    try:
        script = render_job_script(config, benchmark, job_dir)
        listed = "" if hidden is None else hidden_line(hidden)
        return (
            StagedFile("job.sh", f"{script.rstrip()}\n{listed}" if listed else script, 0o600),
            StagedFile(ASKED_FILE, asked_of(config, benchmark, job_dir).text(), 0o600),
        )
    except SubmitConfigError as err:
        raise AirflowFailException(f"The job script of {benchmark!r} cannot be written:\n{err}") from None


def run_files(config: SubmitConfig, run_dir: str, key: ChainKey, extra: Mapping[str, str]) -> RunFiles:
    """What the run directory holds beside the benchmarks; `extra` goes into the record's executor_metadata."""
    head = RecordHead(
        gym_job_id=posixpath.basename(run_dir),
        gym_version=_gym_version(),
        gym_commit=None,
        submitted_at=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        cluster=config.cluster_name,
        hostname=config.cluster.hostname,
        submitted_by=getpass.getuser(),
        executor_metadata=dict(extra),
    )
    return RunFiles(run_dir, key, head, config.resolved_yaml(), tuple(config.driver.benchmarks))


def _gym_version() -> str:
    """The gym installed beside us, else our own release: it is we who wrote the record."""
    for name in ("nemo-gym", "airflow-gym-provider"):
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
        return version if name == "nemo-gym" else f"airflow-gym-provider {version}"
    return "airflow-gym-provider"


def submit(
    hook: SlurmHook,
    config: SubmitConfig,
    run: RunFiles,
    submissions: Sequence[Submission],
    environ: Mapping[str, str],
) -> SubmitReport:
    """Stage and queue, in one script over one connection. Raises AirflowFailException for missing mount sources."""
    mounts, clusters = config.mount_sources(), config.cluster.named_clusters
    script = submit_script(run, submissions, mounts=mounts, environ=environ, clusters=clusters, **hook.script_options)
    report = read_submit(script, hook.run(script, SUBMIT_TIMEOUT), submissions, mounts)
    if report.missing_mounts:
        lines = "\n".join(f"  - {place}: {path}" for place, path in report.missing_mounts)
        raise AirflowFailException(f"Nothing was submitted; mount sources that do not exist on {hook.where}:\n{lines}")
    return report


def refusal(config: SubmitConfig, outcome: Outcome) -> Exception:
    """What sbatch's certain refusal means for the task: ChainRetry when it passes by itself, AirflowFailException when
    it does not, ChainError (tried a few times) when a site refuses in words of its own.
    """
    said = read_sbatch(Answer(outcome.returncode or 1, outcome.stdout, outcome.stderr), config.cluster_name)
    if not isinstance(said, Refusal):
        return ChainRetry(config.hide(outcome.text), passing=True)
    if said.kind == "unsure":
        return ChainError(config.hide(replace(said, cure=_SITE_WORDS).told("")))
    text = config.hide(said.told(_blamed(config, said)))
    return AirflowFailException(text) if said.kind == "permanent" else ChainRetry(text, passing=True)


def _blamed(config: SubmitConfig, said: Refusal) -> str:
    """The field that sbatch took offence at, with what it holds: "compute.eos.account is 'nobody'"."""
    if not said.field:
        return ""
    values = sorted({repr(value) for value in _at(config.resolved(), said.field.split("."))})
    sources = {source for place, source in config.origins.items() if fnmatchcase(place, said.field)}
    told = f" (from {' and '.join(sorted(sources))})" if sources else ""
    return f"{said.field} is {' and '.join(values)}{told}" if values else f"The field is {said.field}"


def _at(tree: Any, path: Sequence[str]) -> list[Any]:
    """The plain values at a dotted path, in which * stands for every name."""
    if not path:
        return [] if tree is None or isinstance(tree, dict) else [tree]
    if not isinstance(tree, dict):
        return []
    names = list(tree) if path[0] == "*" else [name for name in (path[0],) if name in tree]
    return [value for name in names for value in _at(tree[name], path[1:])]


def settle(config: SubmitConfig, outcome: Outcome) -> str | None:
    """The job's id and cluster ("60" or "60;c2"); None when the chain must be looked at again.

    Raises ChainRetry for what passes, ChainError for a directory that cannot be used and for a refusal that nobody
    knows, which are tried a few times, and AirflowFailException for what neither helps.
    """
    if outcome.kind in (OutcomeKind.SUBMITTED, OutcomeKind.ADOPTED):
        return job_key(str(outcome.job_id), outcome.cluster)
    if outcome.kind is OutcomeKind.REFUSED:
        raise refusal(config, outcome)
    if outcome.kind is OutcomeKind.FAILED:
        raise ChainError(outcome.text)
    if outcome.kind is OutcomeKind.BUSY:
        raise ChainRetry(outcome.text, _BUSY_AGAIN)
    if outcome.kind is OutcomeKind.UNKNOWN:
        if _NO_CLUSTER.search(outcome.text):
            raise AirflowFailException(f"{outcome.text}. See compute.{config.cluster_name}.extra_args.clusters")
        raise ChainRetry(outcome.text, passing=True)
    return None
