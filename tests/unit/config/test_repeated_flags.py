from __future__ import annotations

from typing import Any

import pytest

from .builders import config, pair, pool, ray, vllm, warnings_of


@pytest.mark.parametrize(
    ("service", "flag", "field"),
    [
        (vllm(extra_args="--port 9000"), "--port '9000'", "port says (8000)"),
        (vllm(extra_args="--max-model-len 8 --port=9000 # x"), "--port '9000'", "port says (8000)"),
        (vllm(extra_args="--tensor-parallel-size 2"), "--tensor-parallel-size '2'", "tensor_parallel_size says (1)"),
        (vllm(extra_args="--tensor_parallel_size=2"), "--tensor-parallel-size '2'", "tensor_parallel_size says (1)"),
        (vllm(extra_args="-tp 2"), "-tp '2'", "tensor_parallel_size says (1)"),
        (vllm(extra_args="-pp 2"), "-pp '2'", "pipeline_parallel_size says (1)"),
        (vllm(extra_args="-dp 2"), "-dp '2'", "number_of_instances says (1)"),
        (vllm(extra_args="--data-parallel-rpc-port 9"), "--data-parallel-rpc-port '9'", "data_parallel_rpc_port says"),
        (vllm(extra_args="--served-model-name 'my name'"), "--served-model-name 'my name'", "model_name says (null)"),
        (vllm(extra_args="--model x/y"), "--model 'x/y'", "model says ('org/model')"),
        (ray(extra_args="--port=1"), "--port '1'", "port says (6379)"),
        (ray(extra_args="--num-cpus 4", num_cpus=8), "--num-cpus '4'", "num_cpus says (8)"),
    ],
)
def test_a_flag_that_contradicts_its_field_is_warned_of(service: dict[str, Any], flag: str, field: str) -> None:
    (told,) = warnings_of(config({"x": service}, policy=None))
    assert told.startswith(f"services.x.extra_args: {flag} is not what ") and field in told
    assert "; set services.x." in told and told.endswith(" out")


def test_tiers_are_looked_at_as_well() -> None:
    tiers = pair(decode={"node_pool": "b", "extra_args": "--port 9000"})
    (told,) = warnings_of(config({"policy": tiers}, {"a": pool(), "b": pool()}))
    assert told.startswith("services.policy.decode.extra_args: --port '9000' is not what port says (8002)")


@pytest.mark.parametrize(
    "service",
    [
        vllm(extra_args="--port 8000 -tp=1"),
        vllm(extra_args="--portal 9000 --max-model-len 8192 --x '{\"port\": 1}'"),
        vllm(extra_args="# --port 9000"),
        ray(extra_args="--num-cpus 4 --num-gpus 2 --include-dashboard=true"),
    ],
)
def test_other_flags_are_not(service: dict[str, Any]) -> None:
    assert not warnings_of(config({"x": service}, policy=None))


def test_what_cannot_be_split_is_left_to_rendering() -> None:
    assert not warnings_of(config({"x": vllm(extra_args="--port 9000 '")}, policy=None))
