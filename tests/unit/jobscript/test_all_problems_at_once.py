"""What only rendering finds is told at once as well, whatever the places are."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_gym_provider.config import SubmitConfigError
from airflow_gym_provider.jobscript import render_job_script

from .stage import config_of

MANY = [f"/{number}{'y' * 1000}" for number in range(140)]


def _vllm(**fields: Any) -> dict[str, Any]:
    return {"type": "vllm", "container": "vllm/image:1", "model": "org/model", **fields}


def _problems(tree: dict[str, Any], job_dir: str = "/lustre/x") -> list[str]:
    with pytest.raises(SubmitConfigError) as refusal:
        render_job_script(config_of(tree), "bench", job_dir)
    return [problem.where for problem in refusal.value.problems]


def test_every_section_of_a_script_is_looked_at() -> None:
    pools = {"a": {"partition": "p"}, "b": {"partition": "q"}}
    tree = {
        "services": {
            "policy": _vllm(node_pool="a", env={"UID": "lit:0"}, extra_args="--x '", mounts=MANY),
            "j": _vllm(node_pool="b", port=8100, extra_args='--y "'),
            "r": {"type": "ray", "container": "ray/image:1", "extra_args": "--z `"},
        },
        "compute": {"c": {"type": "slurm", "account": "y" * 1025, "node_pools": pools}},
        "driver": {
            "policy_model": "policy",
            "env": {"PPID": "lit:1"},
            "mounts": MANY,
            "benchmarks": {"bench": {"prepare": {"a b": 1}, "run": {"c d": 1, "output_jsonl_fpath": 5}}},
        },
        "otel": {"gym_telemetry": False},
    }
    assert _problems(tree, "/lustre/${x}") == [
        "compute.c.node_pools",
        "otel.endpoint",
        "otel.service_name",
        "otel.token_env",
        "job.output_path",
        "services.policy.env.UID",
        "the mounts of policy",
        "services.policy.extra_args",
        "services.j.extra_args",
        "services.r.extra_args",
        "driver.env.PPID",
        "the mounts of driver",
        "driver.benchmarks.bench.prepare.a b",
        "driver.benchmarks.bench.run.output_jsonl_fpath",
        "driver.benchmarks.bench.run.c d",
        "the directive --account",
    ]


def test_both_tiers_of_a_pair_are_looked_at() -> None:
    tiers = {
        "prefill": {"node_pool": "p", "env": {"UID": "lit:0"}, "extra_args": "'"},
        "decode": {"node_pool": "d", "env": {"EUID": "lit:0"}, "extra_args": "'"},
    }
    pair = {"type": "vllm_pd", "container": "r", "model": "m", "env": {"PPID": "lit:0"}, **tiers}
    pools = {"p": {"partition": "x"}, "d": {"partition": "x"}}
    compute = {"c": {"type": "slurm", "account": "a", "node_pools": pools}}
    assert _problems({"services": {"llm": pair}, "compute": compute}) == [
        "services.llm.prefill.env.UID",
        "services.llm.prefill.extra_args",
        "services.llm.decode.env.EUID",
        "services.llm.decode.extra_args",
        "services.llm.env.PPID",
    ]
