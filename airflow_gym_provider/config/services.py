"""The ``services`` section: vLLM servers, prefill/decode pairs and Ray clusters."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import Field, field_validator, model_validator

from airflow_gym_provider.config.env import Env
from airflow_gym_provider.config.fields import (
    Argument,
    Count,
    CountOrZero,
    Flag,
    Line,
    Number,
    Port,
    Script,
    StrictModel,
    Text,
    as_int,
    refuse,
)
from airflow_gym_provider.config.mounts import Mounts

DEFAULT_RPC_PORT = 13345
TIERS = ("prefill", "decode")
HANDED_DOWN = ("container", "model", "served_model_name")
"""What a ``vllm_pd`` entry hands down to a tier that does not say otherwise."""


class HealthCheckConfig(StrictModel):
    """An HTTP endpoint that must answer before the driver starts; polled every five seconds."""

    path: Line = "/health"
    port: Port | None = None
    timeout_seconds: Count = 60

    @field_validator("path")
    @classmethod
    def _is_url_path(cls, path: str) -> str:
        if not path.startswith("/") or " " in path:
            raise refuse(f"{path!r} must be the path of a URL: it starts with / and holds no blank")
        return path


class BaseServiceConfig(StrictModel):
    """Fields common to every service. ``placement`` is filled in with the only compute entry.

    The properties below are what rules, placement and rendering ask of any service; a type says what differs. Without
    more, a service is one step on one node: the first of its pool, or the driver's.
    """

    container: Line
    placement: Line | None = None
    node_pool: Line | None = None
    health_check: HealthCheckConfig | None = None
    env: Env = Field(default_factory=dict)
    mounts: Mounts = Field(default_factory=list)
    pre_command: Script = ""

    @property
    def gpu_factors(self) -> dict[str, int]:
        """Return what multiplies to the GPUs of one instance, by field. Empty: it claims none, and is not judged."""
        return {}

    @property
    def instance_gpus(self) -> int:
        """Return the GPUs of one instance: tensor-parallel times pipeline-parallel size; 0 when it claims none."""
        return math.prod(self.gpu_factors.values()) if self.gpu_factors else 0

    @property
    def instances(self) -> int:
        """Return how many instances the service runs."""
        return 1

    @property
    def parts(self) -> Mapping[str, BaseServiceConfig]:
        """Return the services that are written inside of this one, by their keys: the tiers of a ``vllm_pd``."""
        return {}

    def deployed(self, name: str) -> dict[str, BaseServiceConfig]:
        """Return what runs for an entry of this name: itself, unless the type says otherwise."""
        return {name: self}


class BaseModelServiceConfig(BaseServiceConfig):
    """A service that serves a model and can be the policy. Its health check defaults to ``/health`` on ``port``."""

    model: Argument
    port: Port = 8000
    served_model_name: Line | None = None
    metrics_prefix: ClassVar[str]
    """What the names of its metrics begin with, up to the colon, on ``/metrics`` of ``port``."""

    @property
    def model_name(self) -> str:
        """Return the name that clients ask for: ``served_model_name``, or ``model``."""
        return self.served_model_name or self.model

    @model_validator(mode="after")
    def _default_health_check(self) -> Self:
        check = self.health_check or HealthCheckConfig()
        if check.port is None:
            check = check.model_copy(update={"port": self.port})
        # Frozen for everyone else; this is still construction.
        object.__setattr__(self, "health_check", check)
        self.__dict__["health_check"] = check
        return self


class VllmServiceConfig(BaseModelServiceConfig):
    """A vLLM server, started with ``vllm serve``."""

    metrics_prefix = "vllm"
    type: Literal["vllm"]
    tensor_parallel_size: Count = 1
    pipeline_parallel_size: Count = 1
    number_of_instances: Count = 1
    trust_remote_code: Flag = False
    use_ray_serve: Flag = False
    extra_args: Text = ""
    data_parallel_rpc_port: Port = DEFAULT_RPC_PORT

    @property
    def gpu_factors(self) -> dict[str, int]:
        """Return the tensor-parallel and the pipeline-parallel size."""
        return {
            "tensor_parallel_size": self.tensor_parallel_size,
            "pipeline_parallel_size": self.pipeline_parallel_size,
        }

    @property
    def instances(self) -> int:
        """Return ``number_of_instances``."""
        return self.number_of_instances


class VllmPDTierConfig(VllmServiceConfig):
    """One tier of a ``vllm_pd`` service as deployed. Built by the service, never written by a user."""

    kv_transfer_config: dict[str, str]
    nixl_side_channel_port: int
    server_per_node: bool


class VllmPDServiceConfig(BaseModelServiceConfig):
    """Prefill/decode disaggregated vLLM: two tiers behind a router, which is what this entry's own fields describe."""

    metrics_prefix = "vllm"
    type: Literal["vllm_pd"]
    prefill: VllmServiceConfig
    decode: VllmServiceConfig
    server_per_node: Flag = False
    nixl_side_channel_port: Port = 5600
    prefill_policy: Line = "cache_aware"
    decode_policy: Line = "cache_aware"
    intra_node_data_parallel_size: Count = 1
    request_timeout_secs: Count = 86400
    log_level: Line = "error"
    kv_connector: Line = "NixlConnector"
    kv_load_failure_policy: Line = "fail"

    @model_validator(mode="before")
    @classmethod
    def _fill_tier_defaults(cls, data: Any) -> Any:
        """Let tiers inherit image and model, and give each its own ports; what a tier sets itself stays."""
        if not isinstance(data, dict):
            return data
        data = dict(data)
        port = _whole(data.get("port", 8000))
        shared = {key: data[key] for key in HANDED_DOWN if key in data}
        rpc_port: int | None = DEFAULT_RPC_PORT
        for offset, tier in enumerate(TIERS, start=1):
            if isinstance(data.get(tier), dict):
                own = {"port": port + offset} if port is not None else {}
                rpc = {"data_parallel_rpc_port": rpc_port} if rpc_port is not None else {}
                data[tier] = {"type": "vllm", **shared, **own, **rpc, **data[tier]}
                first = _whole(data[tier].get("data_parallel_rpc_port"))
                rpc_port = None if first is None else first + 1
        return data

    @property
    def parts(self) -> Mapping[str, VllmServiceConfig]:
        """Return the two tiers as they are written."""
        return {"prefill": self.prefill, "decode": self.decode}

    def deployed(self, name: str) -> dict[str, BaseServiceConfig]:
        """Return the two tiers as deployed, ``<name>-prefill`` and ``<name>-decode``, then the router."""
        return {**{f"{name}-{tier}": self._tier(tier, offset) for offset, tier in enumerate(TIERS)}, name: self}

    def _tier(self, tier: str, offset: int) -> VllmPDTierConfig:
        settings = self.parts[tier]
        fields = {key: getattr(settings, key) for key in VllmServiceConfig.model_fields}
        transfer = {
            "kv_connector": self.kv_connector,
            "kv_role": "kv_producer" if tier == "prefill" else "kv_consumer",
            "kv_load_failure_policy": self.kv_load_failure_policy,
        }
        return VllmPDTierConfig.model_construct(
            **fields,
            kv_transfer_config=transfer,
            nixl_side_channel_port=self.nixl_side_channel_port + offset,
            server_per_node=self.server_per_node,
        )


class RayServiceConfig(BaseServiceConfig):
    """A Ray cluster: the head on the driver's node, a worker on every other node of the spanned pools."""

    type: Literal["ray"]
    node_pools: list[Line] = Field(default_factory=list)
    port: Port = 6379
    resources: dict[str, dict[Line, Number]] = Field(default_factory=dict)
    num_cpus: CountOrZero | None = None
    num_gpus: CountOrZero | None = None
    extra_args: Text = ""

    @field_validator("node_pool")
    @classmethod
    def _no_single_pool(cls, pool: str | None) -> None:
        if pool is not None:
            raise refuse(f"a ray service spans pools: write node_pools: [{pool}] instead")

    @field_validator("node_pools")
    @classmethod
    def _no_pool_twice(cls, pools: list[str]) -> list[str]:
        twice = sorted({pool for pool in pools if pools.count(pool) > 1})
        if twice:
            raise refuse(f"{', '.join(map(repr, twice))} is listed more than once; list each pool once")
        return pools

    @model_validator(mode="after")
    def _resources_are_spanned(self) -> Self:
        for pool in self.resources:
            if pool not in self.node_pools:
                raise refuse(f"resources names the pool {pool!r}, which is not in node_pools {self.node_pools}; add it")
        return self

    @model_validator(mode="after")
    def _health_check_has_port(self) -> Self:
        if self.health_check is not None and self.health_check.port is None:
            raise refuse("health_check needs a port: a Ray head has no HTTP endpoint on its own port")
        return self


def _whole(value: Any) -> int | None:
    """Return the number a port field would become, or None when the field itself will be refused."""
    try:
        return as_int(value)
    except ValueError:
        return None


ServiceConfig = Annotated[VllmServiceConfig | VllmPDServiceConfig | RayServiceConfig, Field(discriminator="type")]
"""Every type of service there is; what follows, and the error texts, are told by this list."""


def service_type(model: type[BaseServiceConfig]) -> str:
    """Return what a user writes as ``type`` for services of this model."""
    return str(get_args(model.model_fields["type"].annotation)[0])


SERVICE_TYPES: dict[str, type[BaseServiceConfig]] = {
    service_type(model): model for model in get_args(get_args(ServiceConfig)[0])
}
MODEL_SERVICE_TYPES = [name for name, model in SERVICE_TYPES.items() if issubclass(model, BaseModelServiceConfig)]
"""Those that serve a model, and so can be the policy."""


def deploy(services: Mapping[str, BaseServiceConfig]) -> dict[str, BaseServiceConfig]:
    """Expand each ``vllm_pd`` entry into its tiers and its router, in order of declaration."""
    return {part: what for name, service in services.items() for part, what in service.deployed(name).items()}


def written_place(name: str, services: Container[str]) -> str:
    """Return the dotted place of a deployed service in the config: a tier stands inside of its ``vllm_pd`` entry."""
    if name in services:
        return f"services.{name}"
    entry, _, tier = name.rpartition("-")
    return f"services.{entry}.{tier}"
