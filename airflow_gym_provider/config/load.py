"""From files, overrides and an environment to a checked config."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from airflow_gym_provider.config.compose import Source, compose
from airflow_gym_provider.config.defaults import ConfigDefaults, explained, fill_in
from airflow_gym_provider.config.draft import Draft, read_sections
from airflow_gym_provider.config.errors import (
    Problem,
    SubmitConfigError,
    SubmitConfigWarning,
    certain,
    without,
    without_values,
)
from airflow_gym_provider.config.hiding import hiding_by
from airflow_gym_provider.config.resolve import Resolved, reading, resolve
from airflow_gym_provider.config.rules.arguments import argument_warnings
from airflow_gym_provider.config.rules.benchmarks import (
    command_problems,
    policy_host_warnings,
    policy_problems,
    results_warnings,
    without_injected,
)
from airflow_gym_provider.config.rules.cluster import chain_warnings, cluster_warnings, directive_problems
from airflow_gym_provider.config.rules.gpus import gpu_findings
from airflow_gym_provider.config.rules.names import name_problems
from airflow_gym_provider.config.rules.placements import pair_problems, placement_problems
from airflow_gym_provider.config.rules.ports import moved_ray_ports, port_problems
from airflow_gym_provider.config.rules.repeated_flags import repeated_flag_warnings
from airflow_gym_provider.config.services import BaseServiceConfig
from airflow_gym_provider.config.submit import SubmitConfig
from airflow_gym_provider.config.yaml_source import Render, rendered_by

_RULES = (
    placement_problems,
    pair_problems,
    name_problems,
    policy_problems,
    command_problems,
    directive_problems,
    port_problems,
)
_WARNINGS = (
    cluster_warnings,
    chain_warnings,
    results_warnings,
    policy_host_warnings,
    repeated_flag_warnings,
    moved_ray_ports,
)


def load_submit_config(
    source: Source,
    overrides: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    *,
    render: Render | None = None,
    defaults: ConfigDefaults | None = None,
) -> SubmitConfig:
    """Read, merge, resolve and check a submit config.

    ``source`` is a path, a list of paths (later merged over earlier) or a mapping; a file may bring in fragments by a
    Hydra ``defaults:`` list. ``overrides`` use Hydra's grammar and come before interpolation. ``environ`` (default
    ``os.environ``) is the only environment that ``host:`` and ``${oc.env:...}`` see. ``render`` turns the text of each
    file into the text that is parsed, as Airflow does with Jinja. ``defaults`` stand in for what files and overrides
    leave out, as a Slurm connection does for its cluster.

    Reads the named files and nothing else. Issues SubmitConfigWarning for what is legal but wasteful. Raises
    SubmitConfigError with every problem found. What the reference checks only when a script is rendered is left to
    ``check_render_time``.
    """
    environment = os.environ if environ is None else environ
    problems: list[Problem] = []
    with reading(environment) as reader, rendered_by(render):
        config = compose(source, overrides, problems)
        if config is None:
            raise SubmitConfigError(certain(problems))
        origins = fill_in(config, defaults) if defaults else {}
        resolved = resolve(config, reader, problems)
    with hiding_by(partial(without_values, resolved.read_values)):
        draft = read_sections(resolved.tree, environment, problems)
        draft.driver = without_injected(draft)
        idle = _check_across(draft, problems)
    if problems or draft.compute is None or draft.driver is None or draft.job is None or draft.otel is None:
        told = explained(problems, origins, defaults) if defaults else problems
        raise SubmitConfigError(without(resolved.read_values, problem) for problem in certain(told))
    seen = argument_warnings(resolved.references)
    for finding in [*idle, *seen, *(found for rule in _WARNINGS for found in rule(draft))]:
        warnings.warn(str(without(resolved.read_values, finding)), SubmitConfigWarning, stacklevel=2)
    return _finish(draft, resolved, environment, origins)


def _check_across(draft: Draft, problems: list[Problem]) -> list[Problem]:
    """Apply the rules across sections; return the warnings about GPUs, which need the same arithmetic."""
    for rule in _RULES:
        problems += rule(draft)
    errors, idle = gpu_findings(draft)
    problems += errors
    return idle


def _finish(draft: Draft, resolved: Resolved, environ: Mapping[str, str], origins: Mapping[str, str]) -> SubmitConfig:
    services = {name: _placed(service, draft.cluster_name) for name, service in draft.services.items()}
    sections: dict[str, Any] = {"services": services, "compute": {draft.cluster_name: draft.compute}}
    config = SubmitConfig.model_validate(sections | {"driver": draft.driver, "job": draft.job, "otel": draft.otel})
    token = environ.get(config.otel.token_env)
    secrets = {*resolved.read_values, *(environ.get(name, "") for name in config.forwarded_names())}
    entries = [value for env in _env_mappings(config) for value in env.values()]
    secrets |= {value.value for value in entries if value.kind == "host" or value.reference in resolved.read_values}
    return config.attach(resolved.references, frozenset(secrets - {""}), bool(token), origins)


def _placed(service: BaseServiceConfig, cluster: str) -> BaseServiceConfig:
    """Fill in the only compute entry as the service's placement, and its tiers'."""
    parts = {key: _placed(part, cluster) for key, part in service.parts.items()}
    return service.model_copy(update={"placement": cluster, **parts})


def _env_mappings(config: SubmitConfig) -> list[Any]:
    return [config.driver.env, *(service.env for service in config.deployed_services.values())]
