"""Flags in ``extra_args`` that a field gives already: the server would follow the flag, all others the field."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from itertools import zip_longest

from airflow_gym_provider.config.draft import Draft
from airflow_gym_provider.config.errors import Problem
from airflow_gym_provider.config.fields import shown
from airflow_gym_provider.config.rules.placements import written_services
from airflow_gym_provider.config.services import BaseServiceConfig, RayServiceConfig, VllmServiceConfig

_VLLM = {
    "--model": "model",
    "--port": "port",
    "--served-model-name": "served_model_name",
    "--tensor-parallel-size": "tensor_parallel_size",
    "-tp": "tensor_parallel_size",
    "--pipeline-parallel-size": "pipeline_parallel_size",
    "-pp": "pipeline_parallel_size",
    "--data-parallel-size": "number_of_instances",
    "-dp": "number_of_instances",
    "--data-parallel-rpc-port": "data_parallel_rpc_port",
    "-dpp": "data_parallel_rpc_port",
}
_RAY = {"--port": "port", "--num-cpus": "num_cpus", "--num-gpus": "num_gpus", "--resources": "resources"}
_FLAGS: Mapping[type[BaseServiceConfig], Mapping[str, str]] = {VllmServiceConfig: _VLLM, RayServiceConfig: _RAY}
# With these a field that is not set says nothing, so that the flag contradicts nobody.
_SILENT_UNLESS_SET = frozenset({"num_cpus", "num_gpus", "resources"})


def repeated_flag_warnings(draft: Draft) -> Iterator[Problem]:
    """Warn of every flag whose value is another one than its field's."""
    for where, service in written_services(draft):
        flags = next((flags for model, flags in _FLAGS.items() if isinstance(service, model)), {})
        for flag, value in _given(getattr(service, "extra_args", ""), flags):
            field = flags[flag]
            ours = getattr(service, field)
            if str(ours) == value or (field in _SILENT_UNLESS_SET and not ours):
                continue
            what = f"{flag} {shown(value)} is not what {field} says ({'null' if ours is None else shown(ours)})"
            why = "health checks, addresses, GPU counts and the other nodes go by the field"
            yield Problem(f"{where}.extra_args", f"{what}, and {why}; set {where}.{field} and leave {flag} out")


def _given(extra_args: str, flags: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The flags of ours in a raw text, as they are written in ``flags``, with their values."""
    try:
        words = shlex.split(extra_args, comments=True)
    except ValueError:
        return  # refused while rendering, by a reader of more than shlex knows
    for word, following in zip_longest(words, words[1:], fillvalue=""):
        name, sign, value = word.partition("=")
        flag = name.replace("_", "-")
        if flag in flags:
            yield flag, value if sign else following
