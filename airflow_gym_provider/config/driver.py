"""The ``driver`` section: what runs the benchmarks, and the benchmarks themselves."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Discriminator, Field, Tag, field_validator

from airflow_gym_provider.config.durations import parse_duration
from airflow_gym_provider.config.env import Env
from airflow_gym_provider.config.fields import (
    CountOrZero,
    Duration,
    Line,
    Plain,
    Script,
    StrictModel,
    Text,
    as_flag,
    as_line,
    refuse,
    shown,
)
from airflow_gym_provider.config.mounts import Mounts
from airflow_gym_provider.config.names import check_policy_host, read_benchmark_name

GYM_REPO = "https://github.com/NVIDIA-NeMo/gym"


def _kind_of_resumable(value: Any) -> str:
    return "(limits)" if isinstance(value, (dict, ResumeConfig)) else "(flag)"


def _read_resumable_flag(value: Any) -> bool:
    try:
        return as_flag(value)
    except ValueError:
        options = "true, false or a mapping of max_retries and max_walltime"
        raise refuse(f"must be {options}, not {shown(value)}") from None


class GymInstallConfig(StrictModel):
    """A checkout of Gym that the driver installs before it runs."""

    repo: Line = GYM_REPO
    ref: Line

    @field_validator("repo", "ref")
    @classmethod
    def _is_no_option(cls, value: str) -> str:
        if value.startswith("-"):
            raise refuse(f"{value!r} would be read as an option of git")
        return value


class ResumeConfig(StrictModel):
    """Limits of a chain of jobs: failures that are tried again, and total time."""

    max_retries: CountOrZero = 3
    max_walltime: Duration | None = None

    @property
    def max_walltime_seconds(self) -> int | None:
        """Return the cap on the whole chain in seconds; None for no cap."""
        return None if self.max_walltime is None else parse_duration(self.max_walltime)


class BenchmarkRunConfig(StrictModel):
    """One benchmark: overrides for ``gym eval prepare`` and ``gym eval run``, or a command of its own.

    ``run`` holds what the config says; policy and other defaults are added where the script is rendered.
    """

    prepare: dict[Line, Plain] = Field(default_factory=dict)
    run: dict[Line, Plain] = Field(default_factory=dict)
    command: Script | None = None
    resumable: Annotated[
        Annotated[bool, BeforeValidator(_read_resumable_flag), Tag("(flag)")]
        | Annotated[ResumeConfig, Tag("(limits)")],
        Discriminator(_kind_of_resumable),
    ] = False

    @property
    def resume_config(self) -> ResumeConfig | None:
        """Return the limits of the chain, with defaults; None when the benchmark is not resumable."""
        if isinstance(self.resumable, ResumeConfig):
            return self.resumable
        return ResumeConfig() if self.resumable else None

    @field_validator("command")
    @classmethod
    def _says_something(cls, command: str | None) -> str | None:
        if command is not None and not command.strip():
            raise refuse("an empty command would run nothing; leave it out to run gym eval run")
        return command


class DriverConfig(StrictModel):
    """The container that runs ``gym``, its policy and its benchmarks."""

    container: Line = "python:3.12"
    gym_install: GymInstallConfig | None = None
    policy_model: Line | None = None
    policy_host: Annotated[str, BeforeValidator(check_policy_host)] = "localhost"
    policy_model_type: Text = "openai_model"
    benchmarks: dict[Annotated[str, BeforeValidator(read_benchmark_name)], BenchmarkRunConfig]
    env: Env = Field(default_factory=dict)
    mounts: Mounts = Field(default_factory=list)

    @field_validator("policy_model_type")
    @classmethod
    def _is_one_line(cls, value: str) -> str:
        return as_line(value) if value else value

    @field_validator("benchmarks")
    @classmethod
    def _is_not_empty(cls, benchmarks: dict[str, BenchmarkRunConfig]) -> dict[str, BenchmarkRunConfig]:
        if not benchmarks:
            raise refuse("no benchmark is declared, so nothing would run; declare at least one")
        return benchmarks
