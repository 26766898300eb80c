"""A run on the cluster, found by its directory, a benchmark's directory, or a Slurm job's id."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass

from airflow_gym_provider._cli.command import refused, unusable
from airflow_gym_provider._cli.config import unset_variables
from airflow_gym_provider._cli.place import OWNER
from airflow_gym_provider.chain import (
    ChainKey,
    ChainPlace,
    Limits,
    Look,
    SlurmNotFoundError,
    look_script,
    read_look,
    read_record,
)
from airflow_gym_provider.config import SubmitConfig, SubmitConfigError, load_submit_config
from airflow_gym_provider.config.errors import Problem
from airflow_gym_provider.config.yaml_source import read_yaml
from airflow_gym_provider.hooks.slurm import SlurmHook
from airflow_gym_provider.jobscript import quote, results_spec
from airflow_gym_provider.slurm.commands import check_cluster
from airflow_gym_provider.slurm.keys import number_of
from airflow_gym_provider.slurm.remote import Frames, RemoteScript

_JOB_ID = re.compile(r"([1-9][0-9]{0,9})(?:;([A-Za-z0-9_][A-Za-z0-9_.-]*))?")
_TIMEOUT = 300.0
_BY_ID = """\
_gym_dir=$(timeout 30 squeue {where}--all --noheader --states=all --jobs={job_id} --format=%Z 2>/dev/null | head -n 1)
[ -n "$_gym_dir" ] || _gym_dir=$(timeout 30 sacct {where}--noheader --parsable2 --allocations --jobs={job_id} \\
  --format=WorkDir 2>/dev/null | tail -n 1)
"""
_READ = """\
frame dir
printf '%s' "$_gym_dir"
for _gym_run in "$_gym_dir" "${_gym_dir%/*}"; do
  [ -n "$_gym_run" ] && [ -e "$_gym_run/.gym_owner" ] || continue
  frame run
  printf '%s' "$_gym_run"
  for _gym_file in .gym_owner gym-job.json resolved-config.yaml; do
    [ -e "$_gym_run/$_gym_file" ] || continue
    frame file "$_gym_file"
    cat -- "$_gym_run/$_gym_file"
  done
  break
done
"""


@dataclass(frozen=True)
class FoundRun:
    """A run directory, whose it is, and its benchmarks. `config` is None when it cannot be read any more."""

    run_dir: str
    key: ChainKey
    places: tuple[ChainPlace, ...]
    config: SubmitConfig | None

    @property
    def from_a_shell(self) -> bool:
        """Whether no DAG owns it, so that nobody resumes it."""
        return self.key.dag_id == OWNER

    @property
    def clusters(self) -> tuple[str, ...]:
        """Clusters that the config names."""
        return self.config.cluster.named_clusters if self.config else ()

    def look(self, hook: SlurmHook, *, anybodys: bool = False) -> Look:
        """Its benchmarks' directories, jobs and results, in one round trip; `anybodys` as of `look_script`. Raises as
        read_look and SlurmHook.run.
        """
        options = {"clusters": self.clusters, "anybodys": anybodys, **hook.script_options}
        script = look_script(self.run_dir, self.key, self.places, **options)
        return read_look(script, hook.run(script, _TIMEOUT), self.places)

    def limits(self, benchmark: str) -> Limits:
        """How far its chain may go."""
        from airflow_gym_provider.operators._plan import make_limits

        known = self.config is not None and benchmark in self.config.driver.benchmarks
        return make_limits(self.config, benchmark) if self.config is not None and known else Limits()


def find_run(hook: SlurmHook, target: str, wanted: Sequence[str] | None) -> FoundRun:
    """The run that `target` names, with the benchmarks that are `wanted` (all unless given, or one by its directory or
    job). Raises CommandEnds, SlurmNotFoundError and as SlurmHook.run.
    """
    by_id = _JOB_ID.fullmatch(target)
    script = RemoteScript.build(
        _locate(target, by_id) + _READ, needs=("squeue",) if by_id else (), **hook.script_options
    )
    frames = script.frames(hook.run(script, _TIMEOUT).stdout)
    if frames.error:
        raise SlurmNotFoundError(frames.error)
    folder, run_dir = _text(frames, "dir"), _text(frames, "run")
    if not folder:
        raise refused(f"Slurm does not know a job {target} on {hook.where}")
    if not run_dir:
        why = "is not there, or no run directory of ours: neither it nor its parent has a .gym_owner"
        raise refused(f"{folder} on {hook.where} {why}")
    return _found(frames, run_dir, wanted or ([] if folder == run_dir else [posixpath.basename(folder)]))


def refuse_stranger(target: str, look: Look) -> None:
    """Raise CommandEnds when `target` is the id of a job that lies in a run's directory and is none of its chains'."""
    by_id = _JOB_ID.fullmatch(target)
    ours = [job.ref.key for chain in look.chains.values() for job in chain.jobs]
    ours += [job_id for chain in look.chains.values() for job_id in (*chain.ids, *chain.found)]
    if by_id and by_id[1] not in {number_of(key) for key in ours}:
        raise refused(f"job {target} is in a run's directory, but none of ours: end it with scancel")


def _locate(target: str, by_id: re.Match[str] | None) -> str:
    """Bash that sets _gym_dir."""
    if by_id:
        where = f"--clusters={quote(check_cluster(by_id[2]))} " if by_id[2] else ""
        return _BY_ID.format(job_id=by_id[1], where=where)
    if not target.startswith("/"):
        raise unusable(f"{target!r} is neither a job id nor an absolute path on the cluster")
    try:
        return f"_gym_dir={quote(posixpath.normpath(target))}\n"
    except ValueError as err:
        raise unusable(f"{target!r}: {err}") from None


def _found(frames: Frames, run_dir: str, wanted: Sequence[str]) -> FoundRun:
    files = {frame.arg(0): frame.text for frame in frames.named("file")}
    try:
        key = ChainKey(**json.loads(files[".gym_owner"]))
        record = read_record(files["gym-job.json"]) if "gym-job.json" in files else None
    except (ValueError, TypeError, KeyError) as err:
        raise refused(f"{run_dir} cannot be read: {err}") from None
    config = _config(files.get("resolved-config.yaml", ""))
    names = [entry.benchmark for entry in record.benchmarks] if record else []
    names = names or (list(config.driver.benchmarks) if config else [])
    if missing := [name for name in wanted if name not in names]:
        raise refused(f"{run_dir} has the benchmarks {', '.join(names) or '(none)'}: there is no {missing[0]!r}")
    try:
        places = tuple(_place(run_dir, name, key, config) for name in wanted or names)
    except ValueError as err:
        raise refused(f"{run_dir} cannot be read: {err}") from None
    return FoundRun(run_dir, key, places, config)


def _place(run_dir: str, name: str, key: ChainKey, config: SubmitConfig | None) -> ChainPlace:
    place = ChainPlace.at(run_dir, name, key)
    if config is None or name not in config.driver.benchmarks:
        return place
    return ChainPlace.at(run_dir, name, key, results_spec(config, name, place.job_dir))


def _config(text: str) -> SubmitConfig | None:
    """The config of a run, without the secrets that it refers to; None when it is no config of this release."""
    import warnings

    problems: list[Problem] = []
    tree = read_yaml(text, "resolved-config.yaml", problems) if text else None
    environ: dict[str, str] = {}
    while tree is not None and not problems:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return load_submit_config(tree, (), environ)
        except SubmitConfigError as err:
            missing = unset_variables(err) - environ.keys()
            if not missing:
                return None
            environ.update({name: f"<{name}>" for name in missing})
    return None


def _text(frames: Frames, name: str) -> str:
    found = frames.named(name)
    return found[0].text if found else ""
