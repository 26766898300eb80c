from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_gym_provider.config import SubmitConfigError, load_submit_config

from .builders import BASE, config, pair, pool, problems_of, vllm

Write = Callable[..., Path]


def test_mistakes_of_every_layer_are_listed_together(write: Write) -> None:
    text = (
        BASE.replace("model: org/model", "model: org/model\n    model: other\n    env: {A: bare}\n    node_pool: mian")
        .replace("account: acct", "account: acct\n    walltime: 12h\n    hostname: ${oc.env:NOWHERE}")
        .replace("split: benchmark", "policy_base_url: http://x")
        .replace("job: {output_path: /scratch/evals}", "jbo: {output_path: /scratch/evals}")
    )
    problems = problems_of(write(text), ["services.polcy.port=1", "not an override"])
    assert set(problems) == {
        "services.policy.model",
        "services.policy.env.A",
        "services.policy.node_pool",
        "compute.cluster.walltime",
        "compute.cluster.hostname",
        "driver.benchmarks.gpqa.run.policy_base_url",
        "job",
        "jbo",
        "override 'services.polcy.port'",
        "override 'not an override'",
    }


def test_a_wrong_field_does_not_hide_what_follows_from_the_others() -> None:
    services = {"policy": vllm(port="http", placement="elsewhere"), "judge": vllm(tensor_parallel_size=9, prot=1)}
    problems = problems_of(config(services, {"main": pool(1, 8)}, policy="judg"))
    assert set(problems) == {
        "services.policy.port",
        "services.policy.placement",
        "services.judge.prot",
        "services.judge",
        "driver.policy_model",
    }


def test_a_wrong_size_is_not_judged_by_its_default() -> None:
    problems = problems_of(config({"policy": vllm(tensor_parallel_size="many")}, {"main": pool(1, 0)}))
    assert list(problems) == ["services.policy.tensor_parallel_size"]
    problems = problems_of(config({"policy": vllm(port="x"), "judge": vllm()}))
    assert list(problems) == ["services.policy.port"]


@pytest.mark.parametrize(
    ("source", "place", "guess"),
    [
        (
            config({"policy": vllm(tensor_paralel_size=2)}),
            "services.policy.tensor_paralel_size",
            "tensor_parallel_size",
        ),
        (config({"policy": vllm(type="vlm")}), "services.policy.type", "vllm"),
        (config({"policy": vllm(node_pool="man")}), "services.policy.node_pool", "main"),
        (config(policy="polcy"), "driver.policy_model", "policy"),
        (config(driver={"policy_hosts": "x"}), "driver.policy_hosts", "policy_host"),
        (config(compute={"acount": "x"}), "compute.cluster.acount", "account"),
        (config(pools={"main": pool(partiton="x")}), "compute.cluster.node_pools.main.partiton", "partition"),
        (config(benchmarks={"g": {"runs": {}}}), "driver.benchmarks.g.runs", "run"),
        (
            config(benchmarks={"g": {"resumable": {"max_retry": 1}}}),
            "driver.benchmarks.g.resumable.max_retry",
            "max_retries",
        ),
        (config(otel={"enabled": False, "endpont": "x"}), "otel.endpont", "endpoint"),
        ({**config(), "drivers": {}}, "drivers", "driver"),
        (
            config({"policy": pair(prefill={"node_pool": "a", "tensor_parallel": 2})}, {"a": pool(), "b": pool()}),
            "services.policy.prefill.tensor_parallel",
            "tensor_parallel_size",
        ),
    ],
)
def test_a_near_miss_is_guessed(source: dict[str, Any], place: str, guess: str) -> None:
    assert f"did you mean {guess!r}?" in problems_of(source)[place]


def test_an_unknown_key_far_from_any_lists_those_there_are() -> None:
    assert "output_path" in problems_of({**config(), "job": {"output_path": "/x", "zzz": 1}})["job.zzz"]


@pytest.mark.parametrize("section", ["services", "compute", "driver", "job", "otel"])
@pytest.mark.parametrize(("value", "kind"), [(None, "null"), ([], "a list"), ("x", "text")])
def test_a_section_that_is_no_mapping_is_refused_by_name(section: str, value: Any, kind: str) -> None:
    assert kind in problems_of({**config(), section: value})[section]


def test_one_compute_entry_of_type_slurm() -> None:
    two = {name: {"type": "slurm", "account": "a"} for name in ("cluster_a", "cluster_b")}
    assert "cluster_b" in problems_of({**config(), "compute": two})["compute"]
    assert "compute" in problems_of({**config(), "compute": {}})
    assert "kubernetes" in problems_of({**config(), "compute": {"c": {"type": "kubernetes"}}})["compute.c.type"]


def test_the_error_is_a_value_error_that_counts_and_survives_pickling() -> None:
    with pytest.raises(ValueError) as caught:
        load_submit_config({}, environ={})
    error = caught.value
    assert isinstance(error, SubmitConfigError)
    assert len(error.problems) == 4 and "4 problems" in str(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_unreadable_sources() -> None:
    assert "no config" in problems_of([])[""]
    assert "int" in problems_of([3])[""]


def test_values_that_no_yaml_could_hold_are_refused_by_place() -> None:
    problems = problems_of(config({"policy": vllm(container=object())}, benchmarks={"g": {"run": {"a": {1, 2}}}}))
    assert "services.policy.container" in problems and "driver.benchmarks.g.run.a" in problems


@pytest.mark.parametrize("text", ["a\x00b", "a\ud800b"])
def test_what_no_program_can_be_given_is_refused_everywhere(text: str) -> None:
    services = {"policy": vllm(model=text, extra_args=text, pre_command=text, env={"A": f"lit:{text}"})}
    problems = problems_of(config(services, benchmarks={"g": {"run": {"a": [{"b": text}]}}}))
    fields = {"model", "extra_args", "pre_command", "env.A"}
    assert set(problems) == {f"services.policy.{field}" for field in fields} | {"driver.benchmarks.g.run.a"}
    assert all("a" in what for what in problems.values())


@pytest.mark.parametrize("field", ["container", "model", "served_model_name"])
@pytest.mark.parametrize("text", ["", "  ", "a\nb", "a\tb", "a\rb"])
def test_names_are_one_line(field: str, text: str) -> None:
    assert f"services.policy.{field}" in problems_of(config({"policy": vllm(**{field: text})}))


def test_shell_text_may_have_lines() -> None:
    services = {"policy": vllm(pre_command="a\nb\n", extra_args="--a\n--b")}
    load_submit_config(config(services, benchmarks={"g": {"command": "a\nb"}}), environ={})
