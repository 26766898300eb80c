"""A config on its way to being one: whatever of it is sound, so that rules can look across sections all the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_gym_provider.config.compute import SlurmComputeConfig
from airflow_gym_provider.config.driver import DriverConfig
from airflow_gym_provider.config.errors import Problem
from airflow_gym_provider.config.fields import as_line, kind_of, shown
from airflow_gym_provider.config.names import service_name_fault
from airflow_gym_provider.config.otel import OtelConfig
from airflow_gym_provider.config.scalars import Unresolved
from airflow_gym_provider.config.sections import check_section
from airflow_gym_provider.config.services import SERVICE_TYPES, BaseServiceConfig, deploy, written_place
from airflow_gym_provider.config.submit import JobConfig
from airflow_gym_provider.config.suggest import did_you_mean, one_of
from airflow_gym_provider.config.tree import REQUIRED_SECTIONS, SECTIONS


@dataclass
class Draft:
    """The sound parts of a config. A rule that lacks the parts it needs finds no problem."""

    services: dict[str, BaseServiceConfig] = field(default_factory=dict)
    service_names: tuple[str, ...] = ()
    """Every name under ``services``, those of unsound entries included."""
    cluster_name: str = ""
    compute: SlurmComputeConfig | None = None
    driver: DriverConfig | None = None
    job: JobConfig | None = None
    otel: OtelConfig | None = None
    unsure: set[str] = field(default_factory=set)
    """Places of sections and services in which a default stands for a size, port or pool that was wrong."""

    def sure_services(self) -> dict[str, BaseServiceConfig]:
        """Return the deployed services that rules about GPUs and ports may judge: with sizes and pools that exist."""
        if self.compute is None or "compute" in self.unsure:
            return {}
        pools = {None, *self.compute.node_pools}
        sure = deploy({name: service for name, service in self.services.items() if name not in self.unsure})
        return {name: service for name, service in sure.items() if service.node_pool in pools}

    @property
    def cluster(self) -> SlurmComputeConfig:
        """Return the compute entry; only to be asked for when ``compute`` is sound, else LookupError."""
        if self.compute is None:
            raise LookupError("the compute entry is not sound")
        return self.compute

    @property
    def deployed_services(self) -> dict[str, BaseServiceConfig]:
        """Return the sound services with each ``vllm_pd`` entry expanded."""
        return deploy(self.services)

    def place_of(self, name: str) -> str:
        """Return the dotted place of a deployed service."""
        return written_place(name, self.services)

    @property
    def policy_model(self) -> str | None:
        """Return the name of the policy service."""
        return self.driver.policy_model if self.driver else None


def read_sections(tree: Mapping[str, Any], environ: Mapping[str, str], problems: list[Problem]) -> Draft:
    """Check every section by itself; mistakes go to ``problems``, what is sound into the draft."""
    for key in tree:
        if key not in SECTIONS:
            cure = did_you_mean(key, SECTIONS) or f"; sections are {one_of(SECTIONS)}, scratch keys start with _"
            problems.append(Problem(key if key.isprintable() else repr(key), f"is not a known section{cure}"))
    draft = Draft()
    present = {key: value for key in SECTIONS if (value := _mapping(tree, key, problems)) is not None}
    if "services" in present:
        draft.service_names = tuple(present["services"])
        draft.services = _services(present["services"], environ, problems, draft.unsure)
    if "compute" in present:
        draft.cluster_name, draft.compute = _compute(present["compute"], environ, problems, draft.unsure)
    if "driver" in present:
        draft.driver, _ = check_section(DriverConfig, present["driver"], "driver", environ, problems)
    if "job" in present:
        draft.job, _ = check_section(JobConfig, present["job"], "job", environ, problems)
    if "otel" in present:
        draft.otel, _ = check_section(OtelConfig, present["otel"], "otel", environ, problems)
    elif "otel" not in tree:
        draft.otel = OtelConfig()
    return draft


def _mapping(tree: Mapping[str, Any], key: str, problems: list[Problem]) -> dict[str, Any] | None:
    if key not in tree:
        if key in REQUIRED_SECTIONS:
            problems.append(Problem(key, "is required", absent=True))
        return None
    value = tree[key]
    if isinstance(value, dict):
        return value
    if not isinstance(value, Unresolved):
        cure = "; for no collector write otel: {enabled: false}" if key == "otel" else ""
        problems.append(Problem(key, f"must be a mapping, not {kind_of(value)}{cure}"))
    return None


def _services(
    entries: dict[str, Any], environ: Mapping[str, str], problems: list[Problem], unsure: set[str]
) -> dict[str, BaseServiceConfig]:
    services: dict[str, BaseServiceConfig] = {}
    for name, entry in entries.items():
        where = f"services.{name}" if name.isprintable() else f"services.{name!r}"
        if fault := service_name_fault(name):
            problems.append(Problem(where, fault))
        kind = _type_of(entry, where, SERVICE_TYPES, problems)
        if kind is None:
            continue
        service, sure = check_section(SERVICE_TYPES[kind], entry, where, environ, problems)
        if service is not None:
            services[name] = service
        if not sure:
            unsure.add(name)
    return services


def _compute(
    entries: dict[str, Any], environ: Mapping[str, str], problems: list[Problem], unsure: set[str]
) -> tuple[str, SlurmComputeConfig | None]:
    if len(entries) != 1:
        found = f"has {len(entries)} ({', '.join(entries)})" if entries else "is empty"
        problems.append(Problem("compute", f"must have exactly one entry, but {found}", absent=not entries))
    clusters: dict[str, SlurmComputeConfig | None] = {}
    for name, entry in entries.items():
        where = f"compute.{name}" if name.isprintable() else f"compute.{name!r}"
        try:
            as_line(name)
        except ValueError as error:
            problems.append(Problem(where, f"the entry's name {error}"))
        if _type_of(entry, where, ("slurm",), problems):
            clusters[name], sure = check_section(SlurmComputeConfig, entry, where, environ, problems)
            unsure |= set() if sure else {"compute"}
    return next(iter(clusters.items())) if len(entries) == 1 and clusters else ("", None)


def _type_of(entry: Any, where: str, known: Any, problems: list[Problem]) -> str | None:
    """Return the ``type`` of an entry, or report why it has none that is known."""
    if not isinstance(entry, dict):
        if not isinstance(entry, Unresolved):
            problems.append(Problem(where, f"must be a mapping, not {kind_of(entry)}"))
        return None
    kind = entry.get("type")
    if isinstance(kind, str) and kind in known:
        return kind
    if "type" not in entry:
        problems.append(Problem(f"{where}.type", f"is required: {one_of(known)}", absent=True))
    elif not isinstance(kind, Unresolved):
        guess = did_you_mean(kind, known) if isinstance(kind, str) else ""
        problems.append(Problem(f"{where}.type", f"{shown(kind)} is not supported; use {one_of(known)}{guess}"))
    return None
