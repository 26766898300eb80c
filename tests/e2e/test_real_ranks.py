"""The real vLLM over two nodes that are machines of their own: ranks that find their head, and one API for both."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from real_parts import Machines, install

from airflow_gym_provider.config import load_submit_config

pytestmark = [pytest.mark.real_stack, pytest.mark.slow]

ASK = """
ask() {
  curl -sS --fail -H 'Content-Type: application/json' -d "$1" "$NEMO_GYM_POLICY_BASE_URL/$2"
}
for number in 1 2 3 4 5 6 7 8; do
  ask '{"model": "tiny", "input": "Which letter?", "max_output_tokens": 16}' responses | grep -o 'boxed{[A-J]}'
done
curl -sS --fail "$NEMO_GYM_POLICY_BASE_URL/../metrics" | grep '^vllm:request_success_total.*"stop"'
"""


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


def test_ranks_on_two_nodes_share_the_requests(machines: Machines):
    model = install("real_stack", machines.exports)["REAL_STACK_DIR"] + "/model"
    services = {
        "policy": {
            "type": "vllm",
            "container": "real-vllm",
            "model": model,
            "served_model_name": "tiny",
            "number_of_instances": 2,
            "extra_args": "--max-model-len 2048 --enforce-eager",
            "health_check": {"timeout_seconds": 900},
            "env": {"VLLM_CPU_KVCACHE_SPACE": "lit:1", "HF_HUB_OFFLINE": "lit:1", "VLLM_NO_USAGE_STATS": "lit:1"},
        }
    }
    config = {
        "services": services,
        "compute": {
            "cluster": {
                "type": "slurm",
                "account": "eval",
                "walltime": "00:20:00",
                "node_pools": {"main": {"partition": "debug", "nodes": 2}},
            }
        },
        "driver": {"container": "real-vllm", "policy_model": "policy", "benchmarks": {"ask": {"command": ASK}}},
        "job": {"output_path": "/nowhere"},
        "otel": {"enabled": False},
    }
    log = machines.log_of_driver(load_submit_config(config), "ask")
    assert len(re.findall(r"boxed\{[A-J]\}", log)) == 8
    served = re.findall(r'engine="(\d)".* ([\d.]+)$', log, re.MULTILINE)
    assert sorted(engine for engine, _ in served) == ["0", "1"]
    assert all(float(count) > 0 for _, count in served) and sum(float(count) for _, count in served) == 8
