"""Submission of any number of benchmarks in one round trip: mounts, staging, sbatch and record."""

from __future__ import annotations

import base64
import hashlib
import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from airflow_gym_provider.chain.endings import clock
from airflow_gym_provider.chain.errors import BusyError, ChainError, ForeignDirectoryError
from airflow_gym_provider.chain.hindrances import told
from airflow_gym_provider.chain.identity import ChainKey
from airflow_gym_provider.chain.place import DEFAULT_TIMING, NEW_CHAIN, ChainPlace, Seen, Timing
from airflow_gym_provider.chain.program import place_settings, program, run_settings, settings, whole
from airflow_gym_provider.chain.record import RecordHead, entry_head, record_template
from airflow_gym_provider.jobscript.quoting import quote
from airflow_gym_provider.slurm.keys import cluster_of, number_of
from airflow_gym_provider.slurm.remote import Answer, Frame, Frames, RemoteScript

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_READ_ONLY = {"BASHOPTS", "BASH_VERSINFO", "EUID", "PPID", "SHELLOPTS", "UID"}
# Bash makes these up for every program that it starts, and so could not pass on another value.
_MADE_UP = re.compile(
    "_|BASH(PID|_ARGV0|_COMMAND|_MONOSECONDS|_SUBSHELL)|EPOCH(REALTIME|SECONDS)|(S?RANDOM|SECONDS|SHLVL)"
)


@dataclass(frozen=True)
class StagedFile:
    """A file for a benchmark's directory: path relative to it, text, mode (0600 for job.sh, which holds secrets)."""

    path: str
    text: str = field(repr=False)
    mode: int = 0o644


@dataclass(frozen=True)
class Submission:
    """One benchmark to be queued, if the chain still is what was `seen`.

    `found`: ids of its jobs that the look found unrecorded, "id" or "id;cluster". `walltime`: seconds for sbatch's
    --time, None to leave the job script's. `used` and `retries` go into the dot-files of a `resumable` benchmark.
    `before`: both as of the jobs before the newest, for when that is one of `found`.
    `once`: a chain that has a job gets no other, also when that has ended; for a caller that resumes nothing.
    """

    place: ChainPlace
    files: tuple[StagedFile, ...]
    seen: Seen = NEW_CHAIN
    found: tuple[str, ...] = ()
    walltime: int | None = None
    used: int = 0
    retries: int = 0
    before: tuple[int, int] = (0, 0)
    resumable: bool = False
    once: bool = False


@dataclass(frozen=True)
class RunFiles:
    """The run directory, whose it is, and its own files. `benchmarks`: all of the config, in its order."""

    run_dir: str
    key: ChainKey
    head: RecordHead
    resolved_config: str
    benchmarks: tuple[str, ...]


class OutcomeKind(StrEnum):
    """What came of one submission.

    SUBMITTED and ADOPTED have a live job's id (of a submission that is `once`, ADOPTED may have that of an ended one).
    REFUSED: sbatch said no, certainly without making a job. WAIT: a job may have been made; look again after `wait`
    seconds. CHANGED: somebody else was faster; look again at once. BUSY, UNKNOWN: a lock is held, or squeue does not
    answer; try again. CANCELLED: a cancel came in between, and the new job was cancelled. FAILED: something cannot be
    read or written; the text says what.
    """

    SUBMITTED = "submitted"
    ADOPTED = "adopted"
    REFUSED = "refused"
    WAIT = "wait"
    CHANGED = "changed"
    BUSY = "busy"
    UNKNOWN = "unknown"
    CANCELLED = "cancelled"
    FAILED = "failed"


@dataclass(frozen=True)
class Outcome:
    """What came of one benchmark. `text` is for people.

    `returncode`, `stdout` and `stderr` are sbatch's own, for `slurm.refusals.read_sbatch`; None and "" when it was not
    called. A successful sbatch may have warned there.
    """

    kind: OutcomeKind
    text: str = ""
    job_id: str | None = None
    cluster: str | None = None
    wait: int | None = None
    returncode: int | None = None
    stdout: str = ""
    stderr: str = ""


@dataclass(frozen=True)
class SubmitReport:
    """What came of a submission: `outcomes` by benchmark, or `missing_mounts` as (place in the config, path).

    When a mount is missing nothing was copied and nothing queued. `notes`: what people should know besides, such as why
    gym-job.json could not be written.
    """

    outcomes: Mapping[str, Outcome]
    missing_mounts: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()


def submit_script(
    run: RunFiles,
    submissions: Sequence[Submission],
    *,
    mounts: Sequence[tuple[str, str]] = (),
    environ: Mapping[str, str] | None = None,
    clusters: Sequence[str] = (),
    timing: Timing = DEFAULT_TIMING,
    slurm_bin: str | None = None,
    login_profile: bool = False,
) -> RemoteScript:
    """The script that queues each of `submissions` exactly once, however often and wherever it is run.

    `mounts`: (place in the config, path) of what must be there. `environ`: names and values for sbatch's environment
    alone. `clusters`: further clusters to look for jobs on. One benchmark's trouble never keeps another from its turn.
    Raises ValueError for a path, a variable or a cluster that cannot be one.
    """
    paths = [path for _, path in mounts]
    calls = [
        _forward(environ or {}),
        _run_stage(run),
        f"gym_mounts {' '.join(map(quote, paths))} || return 0" if paths else "",
        "gym_claim || return 0",
        *(_submit(index, submission) for index, submission in enumerate(submissions)),
        "gym_assemble",
    ]
    body = program(("record", "submit"), run_settings(run.run_dir, run.key), clusters, timing, calls)
    return RemoteScript.build(
        body, slurm_bin=slurm_bin, login_profile=login_profile, needs=("sbatch", "squeue", "sacct")
    )


def read_submit(
    script: RemoteScript,
    answer: Answer,
    submissions: Sequence[Submission],
    mounts: Sequence[tuple[str, str]] = (),
) -> SubmitReport:
    """What the answer to `submit_script`, made for the same `submissions` and `mounts`, says.

    Raises ForeignDirectoryError, BusyError, ChainError (nothing could be written), CutOffError and SlurmNotFoundError.
    """
    frames = whole(script, answer)
    missing = tuple(mounts[int(frame.arg(0))] for frame in frames.named("mount"))
    check_run(frames)
    outcomes = {
        submissions[int(frame.arg(0))].place.benchmark: _outcome(frame, frames) for frame in frames.named("outcome")
    }
    notes = tuple(f"gym-job.json was not written: {told(frame.text)}" for frame in frames.named("record"))
    return SubmitReport(outcomes, missing, notes)


def check_run(frames: Frames) -> None:
    """Raise what stands in the way of using the run directory, if anything does."""
    for frame in frames.named("run"):
        text = frame.text.strip()
        if frame.arg(0) == "foreign":
            owner = f"belongs to {text}" if text else "was not made by this provider"
            raise ForeignDirectoryError(
                f"the run directory {owner}; nothing was written. Use another job.output_path, or start anew"
            )
        if frame.arg(0) == "stranger":
            raise ForeignDirectoryError(
                f"{text}; nothing was read or written there. Have it removed, or use another job.output_path, best one "
                "in which only you may make directories"
            )
        if frame.arg(0) in ("failed", "busy"):
            error = BusyError if frame.arg(0) == "busy" else ChainError
            raise error(f"the run directory cannot be used: {told(text)}")


def _forward(environ: Mapping[str, str]) -> str:
    lines = [f"export {_variable(name)}={quote(value)}" for name, value in environ.items()]
    if "LC_ALL" in environ:  # what as_login puts back
        lines.append(f"_gym_saved_lc_all={quote(environ['LC_ALL'])}")
    return "\n".join(["gym_forward() {", ":", *lines, "}"])


def _variable(name: str) -> str:
    if not _VARIABLE.fullmatch(name) or name in _READ_ONLY or _MADE_UP.fullmatch(name) or name.startswith("_gym_"):
        raise ValueError(f"forward_env: {name!r} cannot be given to sbatch as an environment variable")
    return name


def _run_stage(run: RunFiles) -> str:
    config = _file('"$gym_run"/resolved-config.yaml', run.resolved_config, 0o644)
    template = record_template(run.head, run.run_dir, run.benchmarks)
    first = _file('"$gym_run"/.gym_record_template', template, 0o644)
    return f'gym_stage_run() {{\n{config} && {{ [ -e "$gym_run"/.gym_record_template ] || {first}; }}\n}}'


def _submit(index: int, submission: Submission) -> str:
    place = submission.place
    values = {
        **place_settings(index, place),
        "gym_seen_chain": submission.seen.chain,
        "gym_seen_marks": submission.seen.marks,
        "gym_found": "\n".join(_found(word) for word in submission.found),
        "gym_time": "" if submission.walltime is None else clock(submission.walltime),
        "gym_counters": f"{submission.used} {submission.retries}" if submission.resumable else "",
        "gym_counters_before": f"{submission.before[0]} {submission.before[1]}",
        "gym_once": "1" if submission.once else "",
        "gym_entry_head": entry_head(place.benchmark, place.job_dir),
    }
    files = [_file(f'"$gym_dir"/{quote(_inside(item.path))}', item.text, item.mode) for item in submission.files]
    stage = " &&\n".join([*files, '[ -s "$gym_dir"/job.sh ]'])
    return f"{settings(values)}\ngym_stage() {{\n{stage}\n}}\ngym_submit"


def _found(word: str) -> str:
    return f"{number_of(word)} {cluster_of(word) or '-'}"


def _inside(path: str) -> str:
    if path.startswith("/") or ".." in path.split("/") or posixpath.normpath(path) != path:
        raise ValueError(f"{path!r} does not stay inside the benchmark's directory")
    return path


def _file(target: str, text: str, mode: int) -> str:
    data = text.encode()
    digest = hashlib.sha256(data).hexdigest()
    return f"gym_file {target} {mode:o} {digest} {quote(base64.b64encode(data).decode())}"


def _outcome(frame: Frame, frames: Frames) -> Outcome:
    kind, text = OutcomeKind(frame.arg(1)), frame.text.strip()
    text = told(text) if kind in (OutcomeKind.FAILED, OutcomeKind.UNKNOWN) else text
    out = next((item for item in frames.named("sbatch") if item.arg(0) == frame.arg(0)), None)
    err = next((item for item in frames.named("sbatch.err") if item.arg(0) == frame.arg(0)), None)
    outcome = Outcome(
        kind,
        text,
        returncode=int(out.arg(1)) if out else None,
        stdout=out.text if out else "",
        stderr=err.text if err else "",
    )
    if kind in (OutcomeKind.SUBMITTED, OutcomeKind.ADOPTED, OutcomeKind.CANCELLED):
        cluster = None if frame.arg(3, "-") == "-" else frame.arg(3)
        return replace(outcome, job_id=frame.arg(2), cluster=cluster)
    if kind is OutcomeKind.WAIT:
        return replace(outcome, wait=int(frame.arg(2)))
    return outcome
