"""The whole submit config, as the rest of the package uses it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Self

from pydantic import Field, PrivateAttr, field_validator

from airflow_gym_provider.config.compute import ComputeConfig, SlurmComputeConfig
from airflow_gym_provider.config.driver import DriverConfig
from airflow_gym_provider.config.env import value_fault
from airflow_gym_provider.config.errors import Problem, SubmitConfigError, without, without_values
from airflow_gym_provider.config.fields import Line, StrictModel, refuse
from airflow_gym_provider.config.hiding import NOT_SHOWN, hide, hiding_by, name_to_show, taken_out
from airflow_gym_provider.config.mounts import mount_source
from airflow_gym_provider.config.otel import OtelConfig
from airflow_gym_provider.config.placement import Placement, place
from airflow_gym_provider.config.services import (
    BaseModelServiceConfig,
    BaseServiceConfig,
    ServiceConfig,
    deploy,
    written_place,
)
from airflow_gym_provider.config.show import each_text, shown_config, to_yaml

# vLLM asks for no key, but clients insist on sending one.
POLICY_API_KEY = "dummy"
POLICY_KEYS = ("policy_base_url", "policy_model_name", "policy_api_key")


class JobConfig(StrictModel):
    """Where runs are kept: each submission makes a directory of its own under ``output_path``."""

    output_path: Line

    @field_validator("output_path")
    @classmethod
    def _is_usable(cls, path: str) -> str:
        if not path.startswith("/"):
            raise refuse(f"{path!r} must be an absolute path: jobs use it from other directories and nodes")
        if not path.strip("/."):
            raise refuse(f"{path!r} is the root of the filesystem; name a directory for the runs")
        if ":" in path or "," in path:
            raise refuse(f"{path!r} holds a colon or comma, which a bind mount of the directory cannot carry")
        if "${" in path:
            raise refuse(f"{path!r} holds '${{', which Gym would take for an interpolation; use another directory")
        return path


@dataclass(frozen=True)
class PolicyWiring:
    """What a benchmark is told about its policy. ``base_url`` may hold ``${oc.env:NAME}`` for the driver to resolve."""

    base_url: str
    model_name: str
    api_key: str = POLICY_API_KEY

    def run_values(self) -> dict[str, str]:
        """Return the three keys that ``gym eval run`` receives."""
        return dict(zip(POLICY_KEYS, (self.base_url, self.model_name, self.api_key), strict=True))


class SubmitConfig(StrictModel):
    """A checked submit config. Build it with ``load_submit_config``, which applies the rules across sections."""

    services: dict[str, ServiceConfig]
    compute: dict[str, ComputeConfig]
    driver: DriverConfig
    job: JobConfig
    otel: OtelConfig = Field(default_factory=OtelConfig)

    _references: Mapping[tuple[str, ...], str] = PrivateAttr(default_factory=dict)
    _secrets: frozenset[str] = PrivateAttr(default=frozenset())
    _has_token: bool = PrivateAttr(default=False)
    _origins: Mapping[str, str] = PrivateAttr(default_factory=dict)
    _shown: str | None = PrivateAttr(default=None)

    def __repr__(self) -> str:
        # A `run` may hold what an interpolation read from the environment, so values stay out of it.
        return f"SubmitConfig(services={list(self.services)}, benchmarks={list(self.driver.benchmarks)})"

    __str__ = __repr__

    def attach(
        self,
        references: Mapping[tuple[str, ...], str],
        secrets: frozenset[str],
        has_token: bool,
        origins: Mapping[str, str] | None = None,
    ) -> Self:
        """Record what loading learned of the environment: references to show, values to mask, a token or none.

        ``origins``: see the property.
        """
        self._references = references
        self._secrets = secrets
        self._has_token = has_token
        self._origins = dict(origins or {})
        return self

    @property
    def origins(self) -> Mapping[str, str]:
        """Return where values come from that the config itself leaves out: dotted place to source, for messages."""
        return self._origins

    @property
    def cluster_name(self) -> str:
        """Return the key of the only compute entry."""
        return next(iter(self.compute))

    @property
    def cluster(self) -> SlurmComputeConfig:
        """Return the only compute entry."""
        return self.compute[self.cluster_name]

    @property
    def policy_model(self) -> str | None:
        """Return the name of the policy service, if there is one."""
        return self.driver.policy_model

    @cached_property
    def deployed_services(self) -> dict[str, BaseServiceConfig]:
        """Return the services as deployed: each ``vllm_pd`` entry becomes its two tiers, then its router."""
        return deploy(self.services)

    def place_of(self, name: str) -> str:
        """Return the dotted place of a deployed service, for errors."""
        return written_place(name, self.services)

    @cached_property
    def placement(self) -> Placement:
        """Return the nodes of every deployed service and of the driver."""
        return place(self)

    @cached_property
    def policy_wiring(self) -> PolicyWiring | None:
        """Return address and name of the policy, or None when no service is the policy."""
        return wire_policy(self.driver, self.services)

    @property
    def has_otel_token(self) -> bool:
        """Return whether the collector's token variable was set, and not empty, when the config was loaded."""
        return self._has_token

    def resolved(self) -> dict[str, Any]:
        """Return the config with everything applied and filled in: what may be stored and shown.

        ``host:`` and ``runtime:`` stay references. A text that an interpolation read from the environment stays a
        reference in ``env``, and wherever the variable's name looks like a credential's. The policy keys that each
        benchmark receives are shown in its ``run``. Loading the result again gives the same config: a literal ``${``
        is escaped.
        """
        policy = self.policy_wiring.run_values() if self.policy_wiring is not None else {}
        return shown_config(self.model_dump(), self._references, policy)

    def resolved_yaml(self) -> str:
        """Return ``resolved()`` as a YAML file in which every text reads back as the same text; see ``conceal``."""
        return to_yaml(self.resolved()) if self._shown is None else self._shown

    def conceal(self, without: Callable[[str], str]) -> None:
        """Have ``resolved_yaml()`` show every text as what ``without`` makes of it now.

        Who rendered templates in the files may know of secrets that came in that way, as literals. What is taken out
        of a text is one of the ``secret_values`` from then on.
        """
        found: set[str] = set()

        def shown(text: str) -> str:
            left = without(text)
            found.update(taken_out(text, left))
            return left

        self._shown = to_yaml(each_text(self.resolved(), shown))
        self._secrets |= found

    def secret_values(self) -> frozenset[str]:
        """Return every text that was read from the environment, for masking; see ``conceal`` as well. Empty texts are
        left out.
        """
        return self._secrets

    def hide(self, text: str) -> str:
        """Return the text without what was read from the environment, in whatever shape; see ``hiding.shapes``."""
        return hide(text, self.secret_values())

    @contextmanager
    def hiding(self) -> Iterator[None]:
        """Within it, a SubmitConfigError comes without what was read from the environment."""
        try:
            with hiding_by(partial(without_values, self.secret_values())):
                yield
        except SubmitConfigError as error:
            raise SubmitConfigError(without(self.secret_values(), problem) for problem in error.problems) from None

    def mount_sources(self) -> list[tuple[str, str]]:
        """Return (place in the config, path on the cluster) of every mount, in order of declaration."""
        found: list[tuple[str, list[str]]] = []
        for name, service in self.services.items():
            found.append((f"services.{name}", service.mounts))
            found += [(f"services.{name}.{part}", inner.mounts) for part, inner in service.parts.items()]
        found.append(("driver", self.driver.mounts))
        return [
            (f"{where}.mounts.{number}", mount_source(mount))
            for where, mounts in found
            for number, mount in enumerate(mounts)
        ]

    def forwarded_names(self) -> dict[str, str]:
        """Return each variable that must travel with a submission, with its place in the config."""
        prefix = f"compute.{self.cluster_name}.forward_env"
        names = {name: f"{prefix}.{number}" for number, name in enumerate(self.cluster.forward_env)}
        if self.otel.enabled:
            names.setdefault(self.otel.token_env, "otel.token_env")
        return names

    def forwarded_environ(self, environ: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the values to send with a submission: ``forward_env`` and the collector's token.

        Raises SubmitConfigError that names every missing variable, and an empty token. Values are secrets: mask them,
        store them nowhere.
        """
        source = os.environ if environ is None else environ
        values: dict[str, str] = {}
        problems: list[Problem] = []
        for name, where in self.forwarded_names().items():
            value = source.get(name)
            if value is None or (not value and self.otel.enabled and name == self.otel.token_env):
                state = "not set" if value is None else "empty"
                said = name_to_show(name) or f"what is there ({NOT_SHOWN})"
                cure = "set it" if said == name else "set it, or write the variable's name in its place"
                what = f"{said} is {state} in the submitting environment; {cure}"
                problems.append(Problem(where, what, unset=name))
            elif fault := value_fault(name, value):
                problems.append(Problem(where, f"the value of {name} {fault}"))
            else:
                values[name] = value
        if problems:
            raise SubmitConfigError(problems)
        return values


def wire_policy(driver: DriverConfig, services: Mapping[str, BaseServiceConfig]) -> PolicyWiring | None:
    """Return what benchmarks are told about the policy; None when there is none, or it serves no model."""
    service = services.get(driver.policy_model or "")
    if not isinstance(service, BaseModelServiceConfig):
        return None
    return PolicyWiring(f"http://{driver.policy_host}:{service.port}/v1", service.model_name)
