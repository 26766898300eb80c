"""``type: ray``: a Ray cluster with its head beside the driver."""

from __future__ import annotations

import json
from collections.abc import Sequence

from airflow_gym_provider.config import RayServiceConfig, SubmitConfig
from airflow_gym_provider.jobscript.flags import RawWord, drop_flags
from airflow_gym_provider.jobscript.names import file_stem
from airflow_gym_provider.jobscript.nodes import address_word
from airflow_gym_provider.jobscript.quoting import quote
from airflow_gym_provider.jobscript.services.step import command_line, extra_words, service_step
from airflow_gym_provider.jobscript.steps import Step

# `ray start` refuses these together with --address.
_HEAD_ONLY_FLAGS = ("--port", "--redis-shard-ports", "--include-dashboard")


def ray_steps(config: SubmitConfig, name: str, service: RayServiceConfig) -> list[Step]:
    """The head's step on the driver's node, then one step of workers for every other spanned pool's nodes."""
    head_node = config.placement.services[name].first_node
    extra = extra_words(config, name, service.extra_args)
    ranges = {pool: config.placement.pools[pool] for pool in service.node_pools}
    own_pool = next((pool for pool, nodes in ranges.items() if head_node in nodes), None)

    def step(
        title: str, stem: str | None, nodes: Sequence[int], flags: Sequence[str], words: Sequence[RawWord]
    ) -> Step:
        start = command_line("exec ray start", flags, words, last=["--block"])
        command = (_WAIT_FOR_HEAD.format(port=service.port) if stem else "") + start
        arguments = [address_word(head_node)]
        return service_step(config, name, title, command, nodes=nodes, arguments=arguments, stem=stem)

    head_flags = ["--head", f"--port={service.port}", *_capacity(service, own_pool)]
    steps = [step("the head of a Ray cluster", None, [head_node], head_flags, extra)]
    for pool, nodes in ranges.items():
        others = [node for node in nodes if node != head_node]
        if others:
            flags = [f'--address="$2:{service.port}"', *_capacity(service, pool)]
            title, stem = f"its workers on pool {pool}", file_stem(f"{name}_{pool}_workers")
            steps.append(step(title, stem, others, flags, drop_flags(extra, _HEAD_ONLY_FLAGS)))
    return steps


_WAIT_FOR_HEAD = """until ray status --address="$2:{port}" >/dev/null 2>&1; do
  sleep 5
done
"""


def _capacity(service: RayServiceConfig, pool: str | None) -> list[str]:
    """What a node offers to Ray: counts where given, since 0 is a count too, and the custom resources of its pool."""
    flags = []
    if service.num_cpus is not None:
        flags.append(f"--num-cpus={service.num_cpus}")
    if service.num_gpus is not None:
        flags.append(f"--num-gpus={service.num_gpus}")
    resources = service.resources.get(pool or "")
    if resources:
        whole = {name: int(count) if count == int(count) else count for name, count in resources.items()}
        flags.append("--resources=" + quote(json.dumps(whole)))
    return flags
