"""A task instance's context without Airflow: a store that survives, an XCom that is seen, and a DAG run."""

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from airflow.sdk import DAG


class Store(dict):
    """context["task_state_store"]: get and set of JSON values."""

    def set(self, key, value):
        self[key] = value


class TaskInstance(SimpleNamespace):
    """What our operators use of a running task instance."""

    def xcom_push(self, key, value):
        self.xcoms[key] = value


@pytest.fixture
def context():
    """One task instance, first try."""
    ti = TaskInstance(
        dag_id="nightly", run_id="r1", task_id="eval", map_index=-1, max_tries=10_000, try_number=1, xcoms={}
    )
    run = SimpleNamespace(run_after=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), run_id="r1")
    return {"ti": ti, "dag_run": run, "dag": DAG("nightly"), "ds": "2026-01-02", "task_state_store": Store()}


@pytest.fixture
def submit_config(tmp_path):
    """The smallest config: one resumable benchmark, on this machine."""
    return {
        "services": {"policy": {"type": "vllm", "container": "vllm:1", "model": "org/model", "port": 8000}},
        "compute": {
            "c": {
                "type": "slurm",
                "account": "eval",
                "walltime": "2:00:00",
                "node_pools": {"main": {"partition": "debug", "nodes": 1, "gpus_per_node": 1}},
            }
        },
        "driver": {
            "container": "gym:1",
            "policy_model": "policy",
            "benchmarks": {"gpqa": {"run": {"split": "benchmark"}, "resumable": {"max_retries": 2}}},
        },
        "job": {"output_path": str(tmp_path / "out")},
        "otel": {"enabled": False},
    }
