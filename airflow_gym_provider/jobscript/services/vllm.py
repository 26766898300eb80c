"""``type: vllm``, and the tiers of ``vllm_pd``: the steps that start vLLM servers, one function per shape."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from airflow_gym_provider.config import ServicePlacement, Shape, VllmPDTierConfig, VllmServiceConfig
from airflow_gym_provider.jobscript.environment import export_lines
from airflow_gym_provider.jobscript.flags import RawWord, drop_flags, join_flags, split_flags
from airflow_gym_provider.jobscript.nodes import address_word
from airflow_gym_provider.jobscript.quoting import quote
from airflow_gym_provider.jobscript.steps import Step
from airflow_gym_provider.jobscript.templating import render_template

# Only the server that owns the API may have several API processes; vLLM refuses these on a headless one.
_API_ONLY_FLAGS = ("--api-server-count", "-asc")
# Seconds that nodes wait for each other when no health check says how long the service may take.
_PATIENCE = 3600
_RAY_BACKEND = "--distributed-executor-backend ray"


@dataclass(frozen=True)
class VllmDeployment:
    """A vLLM service with where it runs; `place` is its dotted place in the config, for errors."""

    name: str
    service: VllmServiceConfig
    where: ServicePlacement
    place: str
    gpus_per_node: int | None = None
    one_node_job: bool = False

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
        return split_flags(self.service.extra_args, f"{self.place}.extra_args")

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

    def body(self, template: str, command: str, **values: object) -> str:
        """The shell text of a step: the service's own environment and `pre_command`, then `command`."""
        service = self.service
        exports = export_lines(service.env, f"{self.place}.env")
        if isinstance(service, VllmPDTierConfig):
            exports = nixl_exports(service) + exports
        pre_command = service.pre_command.rstrip("\n")
        return render_template(template, exports=exports, pre_command=pre_command, command=command, **values)

    def step(self, title: str, nodes: Sequence[int], body: str, arguments: Sequence[str] = ()) -> Step:
        """A step of this service on `nodes`."""
        return Step(
            title=f"Service {self.name}: {title}.",
            name=self.name,
            container=self.service.container,
            mounts=self.service.mounts,
            nodes=None if self.one_node_job else nodes,
            body=body,
            arguments=arguments,
        )

    def serve(self, flags: Sequence[str], extra: Sequence[RawWord], *, port: bool = True) -> str:
        """``vllm serve`` over several lines, with the words of `extra_args` at its end."""
        own_port = [f"--port {self.service.port}"] if port else []
        lines = [f"vllm serve {quote(self.service.model)}", *own_port, *self.common_flags(), *flags]
        return " \\\n  ".join([*lines, *([join_flags(extra)] if extra else [])])

    def _single(self) -> list[Step]:
        flags = [f"--data-parallel-size {self.where.local_instances}"] if self.where.local_instances > 1 else []
        command = "exec " + self.serve(flags, self.extra_words())
        return [self.step("vLLM on one node", self.where.nodes, self.body("step_body.sh.j2", command))]

    def _per_node(self) -> list[Step]:
        command = "exec " + self.serve([], self.extra_words())
        body = self.body("step_body.sh.j2", command)
        return [self.step("a vLLM server of its own on every node", self.where.nodes, body)]

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
        head = self.body("step_body.sh.j2", "exec " + self.serve(flags, extra))
        workers = self.body("step_body.sh.j2", "exec " + self.serve(headless, drop_flags(extra, _API_ONLY_FLAGS)))
        arguments = [address_word(self.where.first_node)]
        return [
            self.step("the node that serves the API, and the first ranks", self.where.nodes[:1], head, arguments),
            self.step("the other ranks, without an API", self.where.nodes[1:], workers, arguments),
        ]

    def _ray_backed(self) -> list[Step]:
        body = self.body(
            "ray_backed_body.sh.j2",
            self.serve([_RAY_BACKEND], self.extra_words()),
            ray_port=self.where.ray_port,
            count=len(self.where.nodes),
            patience=self.service.health_check.timeout_seconds if self.service.health_check else _PATIENCE,
        )
        arguments = [address_word(self.where.first_node)]
        return [self.step("one vLLM instance across nodes, over Ray", self.where.nodes, body, arguments)]

    def _gateway(self) -> list[Step]:
        options = f"--port {self.service.port} --instances {self.service.number_of_instances}"
        if self.gpus_per_node is not None:
            # An instance larger than a node has its first GPUs on the node of its replica: one replica a node.
            options += f" --per-node {max(1, self.gpus_per_node // self.service.instance_gpus)}"
        body = self.body(
            "gateway_body.sh.j2",
            # Each replica finds a free port of its own.
            self.serve([_RAY_BACKEND], self.extra_words(), port=False),
            ray_port=self.where.ray_port,
            count=len(self.where.nodes),
            program=_gateway_program(),
            options=options,
        )
        arguments = ["127.0.0.1" if self.one_node_job else address_word(self.where.first_node)]
        return [self.step("the Ray Serve gateway and its vLLM instances", self.where.nodes, body, arguments)]


@cache
def _gateway_program() -> str:
    return (Path(__file__).parent.parent / "templates" / "gateway.py").read_text(encoding="utf-8").rstrip("\n")


def text_flag(flag: str, value: str) -> str:
    """``flag value`` as bash text; in one word where the value itself looks like an option."""
    return f"{flag}={quote(value)}" if value.startswith("-") else f"{flag} {quote(value)}"


def nixl_exports(tier: VllmPDTierConfig) -> list[str]:
    """Where a tier's NIXL side channel listens; the host is the node's own, so it is asked for on the node."""
    return [
        "VLLM_NIXL_SIDE_CHANNEL_HOST=$(hostname)",
        f"export VLLM_NIXL_SIDE_CHANNEL_HOST VLLM_NIXL_SIDE_CHANNEL_PORT={tier.nixl_side_channel_port}",
    ]
