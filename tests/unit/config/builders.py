"""Small configs to start from, as YAML text or as mappings."""

from __future__ import annotations

import warnings
from typing import Any

from airflow_gym_provider.config import SubmitConfig, SubmitConfigError, SubmitConfigWarning, load_submit_config

BASE = """\
services:
  policy:
    type: vllm
    container: vllm/image:1
    model: org/model
compute:
  cluster:
    type: slurm
    account: acct
    node_pools:
      main: {partition: batch, nodes: 1}
driver:
  container: gym/image:1
  policy_model: policy
  benchmarks:
    gpqa:
      run: {split: benchmark}
job: {output_path: /scratch/evals}
otel: {enabled: false}
"""


def vllm(**fields: Any) -> dict[str, Any]:
    """A vllm service."""
    return {"type": "vllm", "container": "vllm/image:1", "model": "org/model", **fields}


def ray(**fields: Any) -> dict[str, Any]:
    """A ray service."""
    return {"type": "ray", "container": "ray/image:1", **fields}


def pair(**fields: Any) -> dict[str, Any]:
    """A vllm_pd service with its tiers on the pools a and b."""
    tiers = {"prefill": {"node_pool": "a"}, "decode": {"node_pool": "b"}}
    return {"type": "vllm_pd", "container": "router/image:1", "model": "/ckpt", **tiers, **fields}


def pool(nodes: int = 1, gpus: int | None = None, **fields: Any) -> dict[str, Any]:
    """A node pool."""
    return {"partition": "batch", "nodes": nodes, "gpus_per_node": gpus, **fields}


def config(
    services: dict[str, Any] | None = None,
    pools: dict[str, Any] | None = None,
    *,
    policy: str | None = "policy",
    benchmarks: dict[str, Any] | None = None,
    compute: dict[str, Any] | None = None,
    driver: dict[str, Any] | None = None,
    otel: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """A whole config as a mapping; what is not given is the smallest that works."""
    cluster = {"type": "slurm", "account": "acct", "node_pools": {"main": pool()} if pools is None else pools}
    return {
        "services": {"policy": vllm()} if services is None else services,
        "compute": {"cluster": {**cluster, **(compute or {})}},
        "driver": {"policy_model": policy, "benchmarks": benchmarks or {"gpqa": {}}, **(driver or {})},
        "job": {"output_path": "/scratch/evals"},
        "otel": otel or {"enabled": False},
    }


def problems_of(
    source: Any, overrides: list[str] | None = None, environ: dict[str, str] | None = None
) -> dict[str, str]:
    """Every problem of a config that must be refused, by its place."""
    try:
        load_submit_config(source, overrides or [], environ or {})
    except SubmitConfigError as error:
        places = dict.fromkeys(problem.where for problem in error.problems)
        return {place: "; ".join(p.what for p in error.problems if p.where == place) for place in places}
    raise AssertionError("the config was accepted")


def loaded(source: Any, overrides: list[str] | None = None, environ: dict[str, str] | None = None) -> SubmitConfig:
    """A config that must be accepted, whatever it warns of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SubmitConfigWarning)
        return load_submit_config(source, overrides or [], environ or {})


def warnings_of(source: Any, environ: dict[str, str] | None = None) -> list[str]:
    """What an accepted config warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        load_submit_config(source, (), environ or {})
    return [str(warning.message) for warning in caught if issubclass(warning.category, SubmitConfigWarning)]
