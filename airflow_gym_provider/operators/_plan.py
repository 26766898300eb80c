"""One chain as plain data: all that is needed to go on with it after a deferral, without the config."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowFailException

from airflow_gym_provider.chain import ChainError, ChainKey, ChainPlace, Limits, job_name, run_dir
from airflow_gym_provider.config import SubmitConfig, SubmitConfigError
from airflow_gym_provider.jobscript import ResultsSpec, results_spec
from airflow_gym_provider.operators._asked import asked_of

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

    from airflow_gym_provider.operators._memory import ChainMemory


@dataclass(frozen=True)
class ChainPlan:
    """What a chain is called, where it lies, how it is judged and how far it may go. JSON, and free of secrets."""

    benchmark: str
    run_dir: str
    job_dir: str
    job_name: str
    key: dict[str, Any]
    results: dict[str, Any]
    limits: dict[str, Any]
    hostname: str | None = None
    clusters: list[str] = field(default_factory=list)
    """Clusters that the config names: a job of which nothing is recorded may be there."""
    asked: dict[str, Any] = field(default_factory=dict)
    """What the config asked for when the try began, see `Asked`; none from an older release."""

    @property
    def chain_key(self) -> ChainKey:
        """Its identity."""
        return ChainKey(**self.key)

    @property
    def spec(self) -> ResultsSpec:
        """How its results are judged."""
        return ResultsSpec(**self.results)

    @property
    def results_are_its_own(self) -> bool:
        """Whether they lie in the chain's directory, and not where other runs may have written as well."""
        return posixpath.normpath(self.spec.rollouts_path).startswith(f"{posixpath.normpath(self.job_dir)}/")

    @property
    def bounds(self) -> Limits:
        """How far it may go."""
        return Limits(**self.limits)

    @property
    def place(self) -> ChainPlace:
        """Where it lies on the cluster."""
        return ChainPlace(self.benchmark, self.job_dir, self.job_name, self.spec)

    def as_dict(self) -> dict[str, Any]:
        """For the task's memory, a trigger or an XCom."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ChainPlan:
        """The reverse; what a newer release has added is left out."""
        return cls(**{name: values[name] for name in cls.__dataclass_fields__ if name in values})


def chain_key(context: Context, memory: ChainMemory, run_group: str | None) -> ChainKey:
    """The identity of this task's chain: a function of DAG, run and task, and of how often it began anew."""
    ti = context["ti"]
    if not memory.deployment:
        # Remembered, so that a changed address does not make a chain lose its directory.
        memory.deployment = conf.get("api", "base_url", fallback="") or "airflow"
    return ChainKey(
        dag_id=ti.dag_id,
        run_id=ti.run_id,
        group=run_group or ti.task_id,
        map_index=-1 if run_group else ti.map_index if ti.map_index is not None else -1,
        generation=memory.generation,
        deployment=memory.deployment,
    )


def make_plan(config: SubmitConfig, benchmark: str, key: ChainKey, context: Context) -> ChainPlan:
    """The chain of one benchmark. Raises AirflowFailException for paths and results that cannot be."""
    try:
        folder = run_dir(config.job.output_path, key, context["dag_run"].run_after)
        job_dir = posixpath.join(folder, benchmark)
        spec = results_spec(config, benchmark, job_dir)
        asked = asked_of(config, benchmark, job_dir)
    except (SubmitConfigError, ValueError) as err:
        raise AirflowFailException(f"The submit config cannot be used:\n{err}") from None
    return ChainPlan(
        benchmark=benchmark,
        run_dir=folder,
        job_dir=job_dir,
        job_name=job_name(benchmark, key),
        key=asdict(key),
        results=asdict(spec),
        limits=asdict(make_limits(config, benchmark)),
        hostname=config.cluster.hostname,
        clusters=list(config.cluster.named_clusters),
        asked=asked.as_dict(),
    )


def make_limits(config: SubmitConfig, benchmark: str) -> Limits:
    """How far the config lets a chain go."""
    resume = config.driver.benchmarks[benchmark].resume_config
    return Limits(
        resumable=resume is not None,
        max_retries=resume.max_retries if resume else 0,
        max_walltime=resume.max_walltime_seconds if resume else None,
        walltime=config.cluster.walltime_seconds,
        compute=config.cluster_name,
    )


def check_stayed(place: str, asked: str) -> None:
    """Raise ChainError when this try would look for its job in another `place` than that in which the one before has
    `asked` for it: a second one would run. A config that names the environment or the home of the worker does that
    where workers are several machines.
    """
    if asked and asked != place:
        raise ChainError(
            f"the config means {place} now, and the try before has asked for a job in {asked}. "
            "If job.output_path depends on the worker (an environment variable, a home), write it out; if you have "
            "changed it, clear the task: that starts in the new place"
        )
