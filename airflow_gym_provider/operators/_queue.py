"""Benchmarks of one config into Slurm's queue, each exactly once, however often and from wherever that is asked."""

from __future__ import annotations

import posixpath
import time
from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk.exceptions import AirflowFailException

from airflow_gym_provider.chain import (
    ChainError,
    ChainKey,
    ChainLook,
    ChainPlace,
    Submission,
    look_script,
    read_look,
    read_record,
)
from airflow_gym_provider.config import SubmitConfig
from airflow_gym_provider.exceptions import ChainRetry
from airflow_gym_provider.hooks.slurm import SlurmHook
from airflow_gym_provider.jobscript import quote
from airflow_gym_provider.operators import _submit
from airflow_gym_provider.operators._asked import Asked, asked_of
from airflow_gym_provider.operators._cluster import LOOK_TIMEOUT
from airflow_gym_provider.operators._results import RECORD
from airflow_gym_provider.slurm.remote import RemoteScript

_ROUNDS = 5


class AskedOtherwiseError(AirflowFailException):
    """A job is there that was asked for otherwise than now: its results are none of this config's. `live`: it has not
    ended for certain.
    """

    def __init__(self, text: str, *, live: bool) -> None:
        super().__init__(text)
        self.live = live


class RunQueue:
    """One run directory and the connection to it. `extra` goes into the record's executor_metadata."""

    def __init__(
        self, hook: SlurmHook, config: SubmitConfig, *, key: ChainKey, run_dir: str, extra: Mapping[str, str], log: Any
    ) -> None:
        self.hook = hook
        self.config = config
        self.key = key
        self.run_dir = run_dir
        self.files = _submit.run_files(config, run_dir, key, extra)
        self.log = log

    def queue(self, names: Sequence[str], environ: Mapping[str, str], errors: dict[str, str]) -> None:
        """Queue these, but for those in `errors`, to which is added why one was refused for good.

        Raises ChainRetry when one was refused for now, ChainError when the directory of one cannot be used,
        AskedOtherwiseError, before anything is queued, when one has a job of another config, and AirflowFailException
        when nothing can be queued.
        """
        left, later = [name for name in names if name not in errors], dict[str, ChainRetry | ChainError]()
        for _ in range(_ROUNDS):
            waits: list[int] = []
            for name, outcome in self._round(left, environ).items():
                left.remove(name)
                try:
                    job_id = _submit.settle(self.config, outcome)
                except AirflowFailException as err:
                    errors[name] = str(err)
                except (ChainRetry, ChainError) as err:
                    later[name] = err
                else:
                    if job_id is None:
                        left.append(name)
                        waits.append(outcome.wait or 1)
                    else:
                        self.log.info("%s: job %s", name, job_id)
            if not left:
                break
            time.sleep(max(waits, default=0))
        unusable = [f"{name}: {err}" for name, err in later.items() if isinstance(err, ChainError)]
        if unusable:
            raise ChainError("; ".join(unusable))
        if left or later:
            reasons = [str(err) for err in later.values()] or [f"{', '.join(left)}: not queued yet"]
            raise ChainRetry("; ".join(dict.fromkeys(reasons)), passing=True)

    def _round(self, left: list[str], environ: Mapping[str, str]) -> Mapping[str, Any]:
        """Look, then submit what has no job. What has one is taken from `left`."""
        looks = self._look(left)
        for name, look in looks.items():
            if look.ids and not look.found:
                self._check_asked(look)
                self.log.info("%s: is queued already, job %s", name, look.ids[-1])
                left.remove(name)
        if not left:
            return {}
        submissions = [self._submission(looks[name]) for name in left]
        report = _submit.submit(self.hook, self.config, self.files, submissions, environ)
        for note in report.notes:
            self.log.warning("%s", note)
        return report.outcomes

    def _check_asked(self, look: ChainLook) -> None:
        name, job_dir = look.place.benchmark, look.place.job_dir
        before, now = Asked.read(look.asked), asked_of(self.config, name, job_dir)
        told = before.told(now, f"job {look.ids[-1]} in {job_dir} and its rollouts") if before is not None else ""
        if told:
            ended = "name another run directory"
            cure = "wait until it has ended, or cancel it, and try again" if look.may_live else ended
            raise AskedOtherwiseError(f"{name}: {told}: {cure}", live=look.may_live)

    def are_over(self, names: Sequence[str]) -> bool:
        """Whether each of them has been queued here, and has ended."""
        looks = self._look(names).values()
        return all(look.ids and look.jobs and look.jobs[-1].known and not look.jobs[-1].live for look in looks)

    def _look(self, names: Sequence[str]) -> Mapping[str, ChainLook]:
        places = [ChainPlace.at(self.run_dir, name, self.key) for name in names]
        clusters = self.config.cluster.named_clusters
        script = look_script(self.run_dir, self.key, places, clusters=clusters, **self.hook.script_options)
        return read_look(script, self.hook.run(script, LOOK_TIMEOUT), places).chains

    def _submission(self, look: ChainLook) -> Submission:
        place = look.place
        resumable = self.config.driver.benchmarks[place.benchmark].resume_config is not None
        files = _submit.job_files(self.config, place.benchmark, place.job_dir)
        return Submission(place, files, seen=look.seen, found=look.found, resumable=resumable, once=True)

    def record(self, wanted: Sequence[str] = ()) -> dict[str, Any]:
        """The record as it lies in the run directory; of what sbatch has said, what may be shown.

        Raises ChainRetry when it cannot be read, or lacks the job of one that is `wanted`: on a full disk a job may be
        queued and not recorded, and is found by its name at the next look.
        """
        path = posixpath.join(self.run_dir, RECORD)
        script = RemoteScript.build(f"frame record\ncat -- {quote(path)}", needs=())
        frames = script.frames(self.hook.run(script, LOOK_TIMEOUT).stdout)
        try:
            found = dict(read_record(frames.named("record")[0].text).fields)
        except (IndexError, ValueError) as err:
            raise ChainRetry(f"{path} cannot be read: {err}", passing=True) from None
        for entry in found["benchmarks"]:
            entry["error"] = entry.get("error") and self.config.hide(entry["error"])
        there = {entry["benchmark"] for entry in found["benchmarks"] if entry.get("job_id")}
        if lacking := [name for name in wanted if name not in there]:
            raise ChainRetry(f"{', '.join(lacking)}: queued, but not in {path} yet", passing=True)
        return found
