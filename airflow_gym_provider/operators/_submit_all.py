"""Every benchmark of a config, queued once: what GymSubmitOperator does."""

from __future__ import annotations

import posixpath
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException

from airflow_gym_provider.chain import ChainLook, ChainPlace, Submission, look_script, read_look, read_record, run_dir
from airflow_gym_provider.config import SubmitConfig
from airflow_gym_provider.exceptions import ChainRetry
from airflow_gym_provider.hooks.slurm import SlurmHook
from airflow_gym_provider.jobscript import quote
from airflow_gym_provider.operators import _config, _submit
from airflow_gym_provider.operators._cluster import LOOK_TIMEOUT
from airflow_gym_provider.operators._memory import SUCCESS, ChainMemory
from airflow_gym_provider.operators._plan import chain_key
from airflow_gym_provider.operators._results import RECORD
from airflow_gym_provider.slurm.remote import RemoteScript

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

    from airflow_gym_provider.operators.gym import GymSubmitOperator

_ROUNDS = 5
_REFUSED = "refused"


def submit_all(operator: GymSubmitOperator, context: Context, environ: Mapping[str, str]) -> dict[str, Any]:
    """Queue what is not queued yet and return the record. Raises as ChainRetryPolicy expects."""
    memory = ChainMemory.of(context)
    if memory.begin(context["ti"].max_tries, int(operator.retries or 0), time.time()):
        memory.place.pop(_REFUSED, None)
    whole = _config.whole_environ(environ)
    config = _config.load_config(
        operator.config, operator.overrides, whole, context, operator.log, ssh_conn_id=operator.ssh_conn_id
    )
    names = _names(config, operator.benchmark)
    with SlurmHook(operator.ssh_conn_id, config.cluster.hostname) as hook:
        hook.load()
        run = _Run(operator, context, memory, config, hook)
        errors = run.queue(names, _config.forwarded(config, whole), memory)
        record = run.record()
    context["ti"].xcom_push(key="return_value", value=record)
    if errors:
        raise AirflowFailException("\n".join(f"{name}: {error}" for name, error in errors.items()))
    memory.outcome, memory.outages, memory.unexpected, memory.starts = SUCCESS, 0, 0, 0
    memory.save()
    return record


def _names(config: SubmitConfig, wanted: str | Sequence[str] | None) -> list[str]:
    if not wanted:
        return list(config.driver.benchmarks)
    names = [wanted] if isinstance(wanted, str) else list(wanted)
    return [_config.pick_benchmark(config, name) for name in names]


class _Run:
    """One run directory and the connection to it."""

    def __init__(
        self, operator: GymSubmitOperator, context: Context, memory: ChainMemory, config: SubmitConfig, hook: SlurmHook
    ) -> None:
        self.log = operator.log
        self.config = config
        self.hook = hook
        self.key = chain_key(context, memory, None)
        try:
            self.run_dir = run_dir(config.job.output_path, self.key, context["dag_run"].run_after)
        except ValueError as err:
            raise AirflowFailException(f"The submit config cannot be used: {err}") from None
        extra = {"submitter": "airflow", "dag_id": self.key.dag_id, "run_id": self.key.run_id}
        self.files = _submit.run_files(config, self.run_dir, self.key, extra)
        memory.save()

    def queue(self, names: Sequence[str], environ: Mapping[str, str], memory: ChainMemory) -> dict[str, str]:
        """Queue these; for each that was refused for good, why. Raises ChainRetry when one was refused for now.

        What was refused for good is remembered: a retry for the others does not ask for it again.
        """
        errors: dict[str, str] = memory.place.setdefault(_REFUSED, {})
        left, later = [name for name in names if name not in errors], dict[str, ChainRetry]()
        for _ in range(_ROUNDS):
            waits: list[int] = []
            for name, outcome in self._round(left, environ).items():
                left.remove(name)
                try:
                    job_id = _submit.settle(self.config, outcome)
                except AirflowFailException as err:
                    errors[name] = str(err)
                except ChainRetry as err:
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
        memory.save()
        if left or later:
            reasons = [str(err) for err in later.values()] or [f"{', '.join(left)}: not queued yet"]
            raise ChainRetry("; ".join(dict.fromkeys(reasons)), passing=True)
        return errors

    def _round(self, left: list[str], environ: Mapping[str, str]) -> Mapping[str, Any]:
        """Look, then submit what has no job. What has one is taken from `left`."""
        looks = self._look(left)
        for name, look in looks.items():
            if look.ids and not look.found:
                self.log.info("%s: is queued already, job %s", name, look.ids[-1])
                left.remove(name)
        if not left:
            return {}
        submissions = [self._submission(looks[name]) for name in left]
        report = _submit.submit(self.hook, self.config, self.files, submissions, environ)
        for note in report.notes:
            self.log.warning("%s", note)
        return report.outcomes

    def _look(self, names: Sequence[str]) -> Mapping[str, ChainLook]:
        places = [ChainPlace.at(self.run_dir, name, self.key) for name in names]
        clusters = self.config.cluster.named_clusters
        script = look_script(self.run_dir, self.key, places, clusters=clusters, **self.hook.script_options)
        return read_look(script, self.hook.run(script, LOOK_TIMEOUT), places).chains

    def _submission(self, look: ChainLook) -> Submission:
        place = look.place
        resumable = self.config.driver.benchmarks[place.benchmark].resume_config is not None
        files = _submit.job_files(self.config, place.benchmark, place.job_dir)
        return Submission(place, files, seen=look.seen, found=look.found, resumable=resumable)

    def record(self) -> dict[str, Any]:
        """The record as it lies in the run directory."""
        path = posixpath.join(self.run_dir, RECORD)
        script = RemoteScript.build(f"frame record\ncat -- {quote(path)}", needs=())
        frames = script.frames(self.hook.run(script, LOOK_TIMEOUT).stdout)
        try:
            return dict(read_record(frames.named("record")[0].text).fields)
        except (IndexError, ValueError) as err:
            raise ChainRetry(f"{path} cannot be read: {err}", passing=True) from None
