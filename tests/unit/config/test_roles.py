"""Overrides that name a place by its role."""

from __future__ import annotations

from typing import Any

import pytest

from .builders import config, loaded, pair, pool, problems_of, vllm


@pytest.mark.parametrize(
    "model", ["/ckpt/step 100", "a=b,c", "${oc.env:HOME}", "{x}", "'q'", "7031e56", "1.10", "hf://org/model@main"]
)
def test_the_policys_model_is_data_whatever_it_looks_like(model: str) -> None:
    services: Any = loaded(
        config(services={"actor": vllm(), "judge": vllm(port=8001)}, policy="actor"), [f"@policy.model={model}"]
    ).services
    assert (services["actor"].model, services["judge"].model) == (model, "org/model")


def test_nothing_behind_the_equals_sign_changes_nothing() -> None:
    overrides = ["@policy.model=", "@policy.served_model_name= ", "@cluster.walltime=", "@run.limit=", "@"]
    assert loaded(config(), overrides).resolved() == loaded(config()).resolved()


def test_walltime_and_limit_find_their_places() -> None:
    benchmarks = {"gpqa": {"run": {"limit": 100}}, "aime": {}, "own": {"command": "true"}}
    found = loaded(config(benchmarks=benchmarks), ["@cluster.walltime=4:00:00", "@run.limit=5"])
    assert found.cluster.walltime_seconds == 4 * 3600
    runs = {name: benchmark.run for name, benchmark in found.driver.benchmarks.items()}
    assert runs == {"gpqa": {"limit": 5}, "aime": {"limit": 5}, "own": {}}


def test_a_pair_is_told_as_a_whole() -> None:
    services = {"policy": pair(prefill={"node_pool": "a", "model": "/old"})}
    found: Any = loaded(config(services=services, pools={"a": pool(), "b": pool()}), ["@policy.model=/new"])
    assert {name: service.model for name, service in found.deployed_services.items()} == {
        "policy-prefill": "/new",
        "policy-decode": "/new",
        "policy": "/new",
    }


def test_they_come_after_the_other_overrides_in_their_own_order() -> None:
    services = {"policy": vllm(), "other": vllm(port=8001)}
    overrides = ["@policy.model=first", "driver.policy_model=other", "services.other.model=x", "@policy.model=second"]
    found: Any = loaded(config(services=services), overrides).services
    assert (found["policy"].model, found["other"].model) == ("org/model", "second")


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("@police.model=secret", "@policy.FIELD="),
        ("@policy=secret", "@policy.FIELD="),
        ("@run.limit.=secret", "@policy.FIELD="),
    ],
)
def test_an_unknown_role_is_named_without_the_value(override: str, words: str) -> None:
    (problem,) = problems_of(config(), [override]).items()
    assert problem[0] == f"override {override.partition('=')[0]!r}"
    assert words in problem[1]
    assert "secret" not in str(problem)


def test_a_role_that_nobody_has_is_an_error_and_no_silence() -> None:
    source = config(policy=None, benchmarks={"own": {"command": "true"}})
    problems = problems_of(source, ["@policy.model=x", "@run.limit=1"])
    assert "driver.policy_model" in problems["override '@policy.model'"]
    assert "command" in problems["override '@run.limit'"]


def test_a_misspelt_field_is_found_where_it_was_put() -> None:
    assert "did you mean 'model'" in problems_of(config(), ["@policy.modle=x"])["services.policy.modle"]
