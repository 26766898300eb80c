"""What a chain was asked to evaluate: the models, and what decides which rollouts are made and how they are sampled.

Rollouts that were asked for otherwise are no part of one result, and gym, when it resumes, goes by the list of inputs
of the job before. So what was asked lies beside the rollouts, as digests: a `run` may hold what nobody is to read.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from airflow_gym_provider.config import SubmitConfig
from airflow_gym_provider.config.driver import DriverConfig
from airflow_gym_provider.jobscript.run import benchmark_config, effective_run

RULE = 2
"""What counts, as a number. Digests by another rule say nothing about ours; the models beside them still do."""
_SHOWN = 8
_DIGITS = 12

# None of these decides what a result is; a change of any keeps the rollouts that are there. What is not named counts.
_HARMLESS = re.compile(
    "|".join(
        (
            # how many at a time
            r".*concurren.*|(.*_)?(in_)?parallel(ism)?|(num|max)_(workers|threads|processes)|.*connector_limit.*",
            # where a service is, how long it may take to answer, and who we are to it
            r"(.*_)?((base|api|server|service)_ur[li]|host|hostname|ports?|address|ip)",
            r"port_range_(low|high)|use_absolute_ip",
            r".*(request|client|connect|http|uvicorn|startup|readiness|health).*_(timeout|retries).*",
            r"(.*_)?(api_?key|access_?key|passw(or)?d|secret|credentials?|authorization|(hf|api|auth|access)_token)|token",
            # where things are put, and what is kept of a run beside its rollouts
            r"(.*_)?(output|outputs|logs?|results|cache|capture|tmp|temp|artifacts?)_(jsonl_)?(f?path|dir|dirpath|file)",
            r"(.*_)?logs?|verbose|upload_rollouts.*",
            r"uv_.*|skip_venv_if_present|pip_install_verbose|reuse_existing_data_preparation|overwrite_metrics_conflicts",
            # whether it goes on with what is there, and what is done about what is missing
            r"resume_from_cache|require_complete|route_failures_to_sidecar",
            # one of the models
            r"policy_model_name",
        )
    ),
    re.IGNORECASE,
)
_HARMLESS_SECTION = re.compile(
    r"head_server(_deps)?|ray_.*|hydra|otel.*|telemetry.*|observability.*|profiling.*|wandb.*", re.IGNORECASE
)
_SERVER = re.compile(r"\b(https?|wss?|grpcs?|tcp)://[^/\s'\"?#,;)\]}]*")

_ADDRESS = re.compile(r"\w+://(?:localhost|127\.\d+\.\d+\.\d+|[^/:]*\$\{[^/]*\}):(?P<port>\d+)(?:/|$)")
_VARIABLE = re.compile(r"\$\{?(\w+)")


@dataclass(frozen=True)
class Asked:
    """`models` as `models_of`; `keys`: a digest by place in the benchmark's section, None when that is not known."""

    benchmark: str
    models: str
    keys: Mapping[str, str] | None

    def as_dict(self) -> dict[str, Any]:
        """For a plan or the task's memory: JSON, and free of secrets."""
        return {"rule": RULE, **asdict(self)}

    def text(self) -> str:
        """For a file."""
        return json.dumps(self.as_dict(), indent=1, sort_keys=True) + "\n"

    @classmethod
    def from_dict(cls, values: object) -> Asked | None:
        """The reverse of `as_dict`; None for what is nothing of ours."""
        if not isinstance(values, Mapping) or not isinstance(values.get("models"), str):
            return None
        keys = values.get("keys") if values.get("rule") == RULE else None
        return cls(str(values.get("benchmark")), values["models"], dict(keys) if isinstance(keys, Mapping) else None)

    @classmethod
    def read(cls, text: str) -> Asked | None:
        """The reverse of `text`; None where there is no such file, and for one that is cut short."""
        try:
            return cls.from_dict(json.loads(text))
        except ValueError:
            return None

    def changed(self, now: Asked) -> list[str]:
        """The places in the benchmark's section that are other ones `now`."""
        if self.keys is None or now.keys is None:
            return []
        return sorted(name for name in {*self.keys, *now.keys} if self.keys.get(name) != now.keys.get(name))

    def told(self, now: Asked, what: str) -> str:
        """How `what` was asked for otherwise than `now`, for people: names, no values. "" when it was not."""
        names = self.changed(now)
        rest = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        listed = f"{', '.join(names[:_SHOWN])}{rest}"
        if set(self.models.split(", ")) == set(now.models.split(", ")):
            return f"{what} were asked for before the config changed in {listed}" if names else ""
        told = f"{what} are of {self.models or 'no model'}, and the config names {now.models or 'none'} now"
        return f"{told}; it changed in {listed} as well" if names else told


def asked_of(config: SubmitConfig, benchmark: str, job_dir: str) -> Asked:
    """What the config asks of a benchmark now. Raises SubmitConfigError as `effective_run` does."""
    section, driver = benchmark_config(config, benchmark), config.driver
    values = {f"run.{path}": value for path, value in _flat(effective_run(config, benchmark, job_dir))}
    values |= {f"prepare.{path}": value for path, value in _flat(section.prepare)}
    served = {name: service for name, value in values.items() if (service := _served_at(config, value))}
    if section.command is not None:
        values["command"] = _SERVER.sub("", section.command.strip())
        values |= _variables(driver, section.command)
    elif config.policy_wiring is not None:
        values["driver.policy_model_type"] = driver.policy_model_type
    run_dir = posixpath.dirname(job_dir)
    keys = {name: _digest(name, _plain(value, run_dir)) for name, value in values.items() if _counts(name)}
    # which of the services it is counts, wherever that is
    served |= {} if config.policy_wiring is None else {"driver.policy_model": driver.policy_model or ""}
    keys |= {name: _digest(name, service) for name, service in served.items()}
    return Asked(benchmark, models_of(config, benchmark), keys)


def models_of(config: SubmitConfig, benchmark: str) -> str:
    """The models that a benchmark is evaluated with, for people: of two that differ the rollouts are no one result."""
    found = {name: str(getattr(service, "model", "") or "") for name, service in config.deployed_services.items()}
    found["policy_model_name"] = str(config.driver.benchmarks[benchmark].run.get("policy_model_name") or "")
    return ", ".join(f"{name} {model}" for name, model in found.items() if model)


def _served_at(config: SubmitConfig, value: Any) -> str:
    """The service of ours whose address the value is; "" for any other value."""
    found = _ADDRESS.match(value) if isinstance(value, str) else None
    if found is None:
        return ""
    ports = {str(getattr(service, "port", "")): name for name, service in config.deployed_services.items()}
    return ports.get(found["port"], "")


def _variables(driver: DriverConfig, command: str) -> dict[str, str]:
    """What a command is given by variables that it names, as far as the config says it: a secret may be another one
    every night.
    """
    named = {name: driver.env[name] for name in _VARIABLE.findall(command) if name in driver.env}
    return {f"driver.env.{name}": value.value for name, value in named.items() if value.kind == "lit"}


def _counts(name: str) -> bool:
    """Whether another value there, or in any part of it, makes another result."""
    *_, last = parts = name.replace("-", "_").split(".")
    return not (_HARMLESS.fullmatch(last) or any(map(_HARMLESS_SECTION.fullmatch, parts)))


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """With dotted paths: a nested key and a dotted one mean the same to gym."""
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{key}.")
        elif value is not None and value != {}:  # which say nothing to gym
            yield f"{prefix}{key}", value


def _plain(value: Any, run_dir: str) -> Any:
    """A value without what it may say of places: a server's address, or the directory of this very run."""
    if isinstance(value, str):
        text = value.replace(run_dir, "")
        return _SERVER.sub("", text) if _SERVER.match(text) else text
    if isinstance(value, Mapping):
        return {str(key): _plain(item, run_dir) for key, item in value.items() if _counts(str(key))}
    if isinstance(value, list | tuple):
        return [_plain(item, run_dir) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _digest(name: str, value: Any) -> str:
    """Short: it is to tell two values apart, and not to give one away."""
    spelt = json.dumps([name, value], sort_keys=True, default=str)
    return hashlib.sha256(spelt.encode(errors="surrogatepass")).hexdigest()[:_DIGITS]
