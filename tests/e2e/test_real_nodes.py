"""The real vLLM over two nodes that are machines of their own, without a GPU.

Ranks find their head, and one API serves both; a prefill and a decode server, behind the real vllm-router, hand over
their caches with the real NIXL. (Over Ray this cannot be had: vLLM on the CPU refuses its Ray executor.)
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from real_parts import Machines, install

from airflow_gym_provider.config import SubmitConfig, load_submit_config

pytestmark = [pytest.mark.real_stack, pytest.mark.slow]

ASK = """
ask() {
  curl -sS --fail -H 'Content-Type: application/json' "$NEMO_GYM_POLICY_BASE_URL/responses" \\
    -d '{"model": "tiny", "input": "'"$question"'", "max_output_tokens": 16}' | grep -o 'boxed{[A-J]}'
}
question="Which letter? $(printf 'It is one of ten. %.0s' 1 2 3 4)"
"""
FOUR_TIMES = "for number in 1 2 3 4; do ask; done\n"
# Two servers make each other's acquaintance at the first request, within five seconds or not at all: it is tried again.
ACQUAINT = "for number in 1 2 3 4 5; do ask >/dev/null && break; sleep 2; done\n"
METRICS = """
curl -sS --fail "http://{host}:{port}/metrics" | grep -E '^vllm:({names})'
"""
# Half a minute on an idle machine.
PATIENCE = {"timeout_seconds": 900}
ENV = {"VLLM_CPU_KVCACHE_SPACE": "lit:1", "HF_HUB_OFFLINE": "lit:1", "VLLM_NO_USAGE_STATS": "lit:1"}
# Both nodes have the same few cores: a server that waits must not spin there, or the other's answer to NIXL's handshake
# is later than the five seconds that it waits for one.
ENV |= {"OMP_NUM_THREADS": "lit:1", "OMP_WAIT_POLICY": "lit:PASSIVE", "VLLM_CPU_OMP_THREADS_BIND": "lit:nobind"}
# In bfloat16 vLLM computes attention with AMX where the CPU has it. A decode server, which computes no prompt, dies of
# SIGILL then: only oneDNN asks the kernel for leave.
SMALL = "--max-model-len 2048 --enforce-eager --dtype float32"


@pytest.fixture(scope="session")
def machines() -> Iterator[Machines]:
    """A cluster whose nodes have networks of their own."""
    # Not pytest's own folder: the paths of Unix sockets are short.
    folder = Path(tempfile.mkdtemp(prefix="gym-e2e-", dir="/tmp"))
    made = Machines(folder)
    try:
        made.up()
        yield made
    finally:
        made.down()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def model(machines: Machines) -> str:
    """The folder of the model that guesses letters."""
    return install("real_stack", machines.exports)["REAL_STACK_DIR"] + "/model"


def a_config(policy: dict[str, Any], pools: dict[str, int], command: str) -> SubmitConfig:
    """A config whose driver asks the policy with `command`."""
    return load_submit_config(
        {
            "services": {"policy": policy | {"served_model_name": "tiny"}},
            "compute": {
                "cluster": {
                    "type": "slurm",
                    "account": "eval",
                    "walltime": "00:30:00",
                    "node_pools": {name: {"partition": "debug", "nodes": nodes} for name, nodes in pools.items()},
                }
            },
            "driver": {
                "container": "real-vllm",
                "policy_model": "policy",
                "benchmarks": {"ask": {"command": command}},
            },
            "job": {"output_path": "/nowhere"},
            "otel": {"enabled": False},
        }
    )


def answers(log: str) -> list[str]:
    """The letters that the model chose."""
    return re.findall(r"boxed\{([A-J])\}", log)


def metric(log: str, name: str) -> dict[str, float]:
    """Engine to value of a metric that the driver printed; labels are left out."""
    found = re.findall(rf'^vllm:{name}\{{engine="(\d)".* ([\d.e+]+)$', log, re.MULTILINE)
    return {engine: float(value) for engine, value in found}


def test_ranks_on_two_nodes_share_the_requests(machines: Machines, model: str):
    policy = {"type": "vllm", "container": "real-vllm", "model": model, "number_of_instances": 2}
    policy |= {"extra_args": SMALL, "health_check": PATIENCE, "env": ENV}
    names = 'request_success_total.*"stop"'
    metrics = METRICS.format(host="localhost", port=8000, names=names)
    config = a_config(policy, {"main": 2}, ASK + FOUR_TIMES + metrics)
    log = machines.log_of_driver(config, "ask")
    assert len(answers(log)) == 4
    served = metric(log, "request_success_total")
    assert sorted(served) == ["0", "1"] and min(served.values()) > 0 and sum(served.values()) == 4


def test_a_prefill_node_hands_its_cache_to_a_decode_node(machines: Machines, model: str):
    install("real_router_ray", machines.exports)
    tier = {"container": "real-vllm", "extra_args": f"{SMALL} --block-size 32", "health_check": PATIENCE, "env": ENV}
    policy = {"type": "vllm_pd", "container": "real-router-ray", "model": model, "health_check": PATIENCE}
    policy |= {"prefill": tier | {"node_pool": "front"}, "decode": tier | {"node_pool": "back"}}
    names = "nixl_bytes_transferred_count|nixl_num_failed_transfers_total|request_success_total.*stop"
    metrics = METRICS.format(host="$GYM_POOL_BACK_NODES", port=8002, names=names)
    command = ASK + ACQUAINT + metrics + "echo acquainted\n" + FOUR_TIMES + metrics
    log = machines.log_of_driver(a_config(policy, {"front": 1, "back": 1}, command), "ask")
    before, after = log.split("acquainted")
    assert len(answers(after)) == 4
    for name in ("nixl_bytes_transferred_count", "request_success_total"):
        assert metric(after, name)["0"] - metric(before, name)["0"] == 4
    assert metric(after, "nixl_num_failed_transfers_total") == {"0": 0}
