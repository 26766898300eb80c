"""One look at benchmarks of a run: their directories and their jobs, in one round trip however many there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from airflow_gym_provider.chain.errors import ChainError
from airflow_gym_provider.chain.evidence import ClusterRows, cluster_rows, known_job, unrecorded
from airflow_gym_provider.chain.hindrances import told
from airflow_gym_provider.chain.history import CancelMark, ChainHistory
from airflow_gym_provider.chain.identity import ChainKey
from airflow_gym_provider.chain.place import DEFAULT_TIMING, NEW_CHAIN, ChainPlace, Seen, Timing
from airflow_gym_provider.chain.program import place_settings, program, run_settings, settings, whole
from airflow_gym_provider.chain.submit import check_run
from airflow_gym_provider.results.survey import Survey, parse_survey, survey_body
from airflow_gym_provider.slurm.commands import is_cluster, is_id
from airflow_gym_provider.slurm.jobs import JobRef, JobStatus
from airflow_gym_provider.slurm.remote import Answer, Frames, RemoteScript
from airflow_gym_provider.slurm.troubles import Problem

__all__ = ["ChainLook", "ChainPlace", "Look", "look_script", "read_look"]

_LOOK_AGAIN = 60


@dataclass(frozen=True)
class ChainLook:
    """What was found of one benchmark. `jobs`: its recorded jobs, oldest first, then those `found` unrecorded.

    `ids`: the recorded ones, as in .gym_job_chain. `seen`: for a submission that follows. `wait`: see ChainHistory.
    `survey`: the results as they lay there after the jobs were asked about; None without a directory or `results`.
    `unwritable`: why nothing can be written into the directory, for people; "" when something can, or was not tried.
    `task` and `asked`: which task last asked for a job there, and what for; "" when nobody has written that down.
    """

    place: ChainPlace
    seen: Seen = NEW_CHAIN
    ids: tuple[str, ...] = ()
    found: tuple[str, ...] = ()
    jobs: tuple[JobStatus, ...] = ()
    marks: tuple[CancelMark, ...] = ()
    wait: int | None = None
    recorded_walltime: int = 0
    recorded_retries: int = 0
    survey: Survey | None = None
    unwritable: str = ""
    task: str = ""
    asked: str = ""

    @property
    def may_live(self) -> bool:
        """Whether one of its jobs lives, or Slurm does not say that none does."""
        return any(job.live or not (job.known or job.missing) for job in self.jobs)

    def history(self, base: int = 0, unknown_for: float = 0) -> ChainHistory:
        """The evidence for `decide`. `base`: how many jobs an earlier budget had; `unknown_for`: what a watcher saw."""
        return ChainHistory(
            self.jobs, base, self.marks, unknown_for, self.wait, self.recorded_walltime, self.recorded_retries
        )


@dataclass(frozen=True)
class Look:
    """What one look found. `exists`: whether the run directory is there (and ours). `problems`: texts for people."""

    exists: bool
    chains: Mapping[str, ChainLook]
    squeue_ok: bool = True
    sacct_ok: bool = True
    problems: tuple[Problem, ...] = field(default=())


def look_script(
    run_dir: str,
    key: ChainKey,
    places: Sequence[ChainPlace],
    *,
    clusters: Sequence[str] = (),
    timing: Timing = DEFAULT_TIMING,
    writing: bool = False,
    anybodys: bool = False,
    slurm_bin: str | None = None,
    login_profile: bool = False,
) -> RemoteScript:
    """The script for one look: for each cluster one squeue by name, one sacct by id and one by name; then the results.

    Where no directory is yet, accounting is not asked. It writes only what a killed submission has left undone:
    gym-job.json, and the end of temporary files; with `writing`, also 4 KB that it takes away again, to see whether it
    could. `anybodys`: also when another user of the cluster owns the directory, to show what lies there and act upon
    none of it. Raises ValueError for a path or a cluster that cannot be one.
    """
    calls = [
        "local gym_names='' gym_plains='' gym_since='' gym_asked=' '\nlocal -A gym_ids=()",
        "gym_look_run || return 0",
        *(f"{settings(place_settings(index, place))}\ngym_look" for index, place in enumerate(places)),
        "gym_look_slurm",
        *(f"{settings(place_settings(index, place))}\ngym_tidy" for index, place in enumerate(places)),
        *(f"{settings(place_settings(index, place))}\ngym_probe" for index, place in enumerate(places) if writing),
        "gym_heal",
        '[ -n "$gym_since" ] || return 0',
        *(survey_body(place.results, str(index)) for index, place in enumerate(places) if place.results),
    ]
    run = run_settings(run_dir, key) | {"gym_anybodys": "1" if anybodys else ""}
    body = program(("record", "look"), run, clusters, timing, calls)
    return RemoteScript.build(body, slurm_bin=slurm_bin, login_profile=login_profile, needs=("squeue", "sacct"))


def read_look(
    script: RemoteScript, answer: Answer, places: Sequence[ChainPlace], timing: Timing = DEFAULT_TIMING
) -> Look:
    """What the answer to `look_script` for the same `places` says.

    Raises ForeignDirectoryError, ChainError (a file cannot be read), CutOffError and SlurmNotFoundError.
    """
    frames = whole(script, answer)
    check_run(frames)
    for frame in frames.named("unreadable"):
        raise ChainError(f"the benchmark's directory cannot be used: {told(frame.text)}")
    exists = any(frame.arg(0) == "ours" for frame in frames.named("run"))
    clusters = cluster_rows(frames)
    chains = {
        place.benchmark: _chain(_Files(frames, str(index)), place, clusters, timing, exists)
        for index, place in enumerate(places)
    }
    problems = dict.fromkeys(problem for rows in clusters for problem in rows.problems)
    return Look(
        exists,
        chains,
        all(rows.squeue is None for rows in clusters),
        all(rows.sacct is None and rows.names is None for rows in clusters),
        tuple(problems),
    )


@dataclass(frozen=True)
class _Files:
    """The files of one benchmark as frames."""

    frames: Frames
    index: str

    def text(self, name: str) -> str:
        """Its text without the last line breaks, "" when there was none."""
        found = [frame.text for frame in self.frames.named(name) if frame.arg(0) == self.index]
        return found[0].replace("\r", "").rstrip("\n") if found else ""

    def number(self, name: str) -> int:
        """Its number, 0 when there was none."""
        text = self.text(name).strip()
        return int(text) if text.isascii() and text.isdecimal() and len(text) <= 15 else 0


def _chain(
    files: _Files, place: ChainPlace, clusters: Sequence[ClusterRows], timing: Timing, exists: bool
) -> ChainLook:
    refs = _recorded(files, place)
    found = unrecorded(place, refs, clusters)
    return ChainLook(
        place,
        Seen(files.text("chain"), files.text("marks")),
        tuple(ref.job_id for ref in refs),
        tuple(ref.key for ref in found),
        (
            *(known_job(ref, clusters) for ref in refs),
            *(known_job(ref, clusters, recorded=False) for ref in found),
        ),
        _marks(files.text("marks")),
        _wait(files, len(refs), bool(found), clusters, timing),
        files.number("walltime"),
        files.number("retries"),
        parse_survey(place.results, files.frames, files.index) if exists and place.results else None,
        told(unwritable) if (unwritable := files.text("unwritable")) else "",
        files.text("task"),
        files.text("asked"),
    )


def _recorded(files: _Files, place: ChainPlace) -> tuple[JobRef, ...]:
    """The jobs in .gym_job_chain, with what .gym_jobs knows of each. Lines that begin with no number do not count."""
    known = {words[0]: words[1:] for line in files.text("jobs").splitlines() if len(words := line.split()) == 3}
    refs: dict[str, JobRef] = {}
    for line in files.text("chain").splitlines():
        job_id = line.strip().partition(";")[0]
        if is_id(job_id) and job_id not in refs:
            cluster, at = known.get(job_id, ("-", ""))
            cluster = cluster if is_cluster(cluster) else "-"
            when = float(at) if at.isascii() and at.isdecimal() else None
            refs[job_id] = JobRef(job_id, None if cluster == "-" else cluster, place.job_dir, when)
    return tuple(refs.values())


def _marks(text: str) -> tuple[CancelMark, ...]:
    """The cancels in .gym_cancelled: lines of epoch, ids with commas (or "-"), and why. Others are passed over."""
    marks = []
    for line in text.splitlines():
        at, _, rest = line.partition(" ")
        ids, _, why = rest.partition(" ")
        if at.isascii() and at.isdecimal():
            marks.append(CancelMark(int(at[:15]), tuple(word for word in ids.split(",") if is_id(word)), why))
    return tuple(marks)


def _wait(files: _Files, count: int, found: bool, clusters: Sequence[ClusterRows], timing: Timing) -> int | None:
    """Seconds until a submission that was cut off may be judged; None when none was, or what came of it is clear."""
    intent = next((frame for frame in files.frames.named("intent") if frame.arg(0) == files.index), None)
    if intent is None or found or count > int(intent.arg(2)):
        return None
    rest = timing.quiet - int(intent.arg(1))
    if rest > 0:
        return rest
    return _LOOK_AGAIN if any(rows.silent_about_names for rows in clusters) else None
