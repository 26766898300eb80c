"""``type: vllm``, and the tiers of ``vllm_pd``: the steps that start vLLM servers, one function per shape."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from airflow_gym_provider.config import ServicePlacement, Shape, SubmitConfig, VllmPDTierConfig, VllmServiceConfig
from airflow_gym_provider.jobscript.flags import RawWord, drop_flags
from airflow_gym_provider.jobscript.nodes import address_word
from airflow_gym_provider.jobscript.quoting import quote
from airflow_gym_provider.jobscript.services.step import command_line, extra_words, service_step, text_flag
from airflow_gym_provider.jobscript.steps import Step

# Only the server that owns the API may have several API processes; vLLM refuses these on a headless one.
_API_ONLY_FLAGS = ("--api-server-count", "-asc")
# Seconds that nodes wait for each other when no health check says how long the service may take.
_PATIENCE = 3600
_RAY_BACKEND = "--distributed-executor-backend ray"


def vllm_steps(config: SubmitConfig, name: str, service: VllmServiceConfig) -> list[Step]:
    """The steps of one vLLM service or tier, by the shape in which it is placed."""
    return _Deployment(config, name, service).steps()


@dataclass(frozen=True)
class _Deployment:
    """A vLLM service on its way to being steps."""

    config: SubmitConfig
    name: str
    service: VllmServiceConfig

    @property
    def where(self) -> ServicePlacement:
        """Where it runs."""
        return self.config.placement.services[self.name]

    def steps(self) -> list[Step]:
        """The steps of this service in the order to start them; the first one's log is the service's."""
        return {
            Shape.SINGLE: self._single,
            Shape.PER_NODE: self._per_node,
            Shape.DATA_PARALLEL: self._data_parallel,
            Shape.RAY_BACKED: self._ray_backed,
            Shape.GATEWAY: self._gateway,
        }[self.where.shape]()

    def extra_words(self) -> list[RawWord]:
        """The words of `extra_args`."""
        return extra_words(self.config, self.name, self.service.extra_args)

    def common_flags(self) -> list[str]:
        """The flags of ``vllm serve`` that every shape shares, as bash text; what is not set is not passed."""
        service = self.service
        flags = [f"--tensor-parallel-size {service.tensor_parallel_size}"]
        if service.pipeline_parallel_size > 1:
            flags.append(f"--pipeline-parallel-size {service.pipeline_parallel_size}")
        if service.served_model_name is not None:
            flags.append(text_flag("--served-model-name", service.served_model_name))
        if service.trust_remote_code:
            flags.append("--trust-remote-code")
        if isinstance(service, VllmPDTierConfig):
            flags.append(f"--kv-transfer-config {quote(json.dumps(service.kv_transfer_config))}")
        return flags

    def step(self, title: str, command: str, **more: Any) -> Step:
        """A step of this service (see `service_step`), which knows a tier's side channel."""
        exports = nixl_exports(self.service) if isinstance(self.service, VllmPDTierConfig) else []
        return service_step(self.config, self.name, title, command, exports=exports, **more)

    def serve(self, flags: Sequence[str], extra: Sequence[RawWord], *, port: bool = True) -> str:
        """``vllm serve`` over several lines, with the words of `extra_args` at its end."""
        own_port = [f"--port {self.service.port}"] if port else []
        return command_line(f"vllm serve {quote(self.service.model)}", [*own_port, *self.common_flags(), *flags], extra)

    def head_address(self) -> list[str]:
        """The argument that tells a step where the service's first node is: ``$2`` in its shell."""
        return [address_word(self.where.first_node)]

    def _single(self) -> list[Step]:
        flags = [f"--data-parallel-size {self.where.local_instances}"] if self.where.local_instances > 1 else []
        return [self.step("vLLM on one node", "exec " + self.serve(flags, self.extra_words()))]

    def _per_node(self) -> list[Step]:
        return [self.step("a vLLM server of its own on every node", "exec " + self.serve([], self.extra_words()))]

    def _data_parallel(self) -> list[Step]:
        # A pinned service meets at its own pool's first node, which is not the allocation's.
        address = '"$2"' if self.service.node_pool else '"$HEAD_NODE_IP"'
        local = self.where.local_instances
        flags = [
            f"--data-parallel-size {self.service.number_of_instances}",
            f"--data-parallel-size-local {local}",
            f"--data-parallel-address {address}",
            f"--data-parallel-rpc-port {self.service.data_parallel_rpc_port}",
        ]
        # Workers are counted from 0 in their own step, and the head has the ranks before theirs.
        headless = ["--headless", f'--data-parallel-start-rank "$((($1 + 1) * {local}))"', *flags]
        extra = self.extra_words()
        head = "exec " + self.serve(flags, extra)
        workers = "exec " + self.serve(headless, drop_flags(extra, _API_ONLY_FLAGS))
        first, *others = self.where.nodes
        told = self.head_address()
        return [
            self.step("the node that serves the API, and the first ranks", head, nodes=[first], arguments=told),
            self.step("the other ranks, without an API", workers, nodes=others, arguments=told),
        ]

    def _ray_backed(self) -> list[Step]:
        return [
            self.step(
                "one vLLM instance across nodes, over Ray",
                self.serve([_RAY_BACKEND], self.extra_words()),
                arguments=self.head_address(),
                template="ray_backed_body.sh.j2",
                ray_port=self.where.ray_port,
                count=len(self.where.nodes),
                patience=self.service.health_check.timeout_seconds if self.service.health_check else _PATIENCE,
            )
        ]

    def _gateway(self) -> list[Step]:
        options = f"--port {self.service.port} --instances {self.service.number_of_instances}"
        # The pools of one job have the same number of GPUs per node.
        gpus = next((pool.gpus_per_node for pool in self.config.cluster.node_pools.values()), None)
        if gpus is not None:
            # An instance larger than a node has its first GPUs on the node of its replica: one replica a node.
            options += f" --per-node {max(1, gpus // self.service.instance_gpus)}"
        one_node_job = self.config.placement.total_nodes == 1
        return [
            self.step(
                "the Ray Serve gateway and its vLLM instances",
                # Each replica finds a free port of its own.
                self.serve([_RAY_BACKEND], self.extra_words(), port=False),
                arguments=["127.0.0.1"] if one_node_job else self.head_address(),
                template="gateway_body.sh.j2",
                ray_port=self.where.ray_port,
                count=len(self.where.nodes),
                program=_gateway_program(),
                options=options,
            )
        ]


@cache
def _gateway_program() -> str:
    return (Path(__file__).parent.parent / "templates" / "gateway.py").read_text(encoding="utf-8").rstrip("\n")


def nixl_exports(tier: VllmPDTierConfig) -> list[str]:
    """Where a tier's NIXL side channel listens; the host is the node's own, so it is asked for on the node."""
    return [
        "VLLM_NIXL_SIDE_CHANNEL_HOST=$(hostname)",
        f"export VLLM_NIXL_SIDE_CHANNEL_HOST VLLM_NIXL_SIDE_CHANNEL_PORT={tier.nixl_side_channel_port}",
    ]
