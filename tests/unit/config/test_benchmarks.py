from __future__ import annotations

from typing import Any

import pytest

from airflow_gym_provider.config import PolicyWiring

from .builders import config, loaded, pair, pool, problems_of, ray, vllm, warnings_of


@pytest.mark.parametrize("name", ["gpqa", "tau2.airline-v1_x", "2024", "x" * 150, ".hidden", "_a"])
def test_names_that_fit(name: str) -> None:
    assert list(loaded(config(benchmarks={name: {}})).driver.benchmarks) == [name]


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "-rf",
        "a b",
        "a/b",
        "a:b",
        "a$b",
        "a;b",
        "a|b",
        "x,y",
        "naïve",
        "two\nlines",
        "a\n",
        "x" * 151,
        "gym-job.json",
        "resolved-config.yaml",
        "GYM-JOB.json",
        ".gym_job_chain",
        "x'; touch /tmp/pwned; '",
    ],
)
def test_names_that_do_not(name: str) -> None:
    ((where, what),) = problems_of(config(benchmarks={name: {}, "ok": {}})).items()
    assert "benchmarks" in where and "benchmark" in what


def test_none_at_all_or_no_mapping() -> None:
    for benchmarks in ({}, [], None):
        source = config()
        source["driver"]["benchmarks"] = benchmarks
        assert list(problems_of(source)) == ["driver.benchmarks"]
    source = config()
    del source["driver"]["benchmarks"]
    assert list(problems_of(source)) == ["driver.benchmarks"]


@pytest.mark.parametrize(
    ("benchmark", "place"),
    [
        (None, ""),
        ({"run": None}, ".run"),
        ({"run": []}, ".run"),
        ({"prepare": "x"}, ".prepare"),
        ({"command": ["a"]}, ".command"),
        ({"command": " "}, ".command"),
        ({"command": "a", "run": {"b": 1}}, ".command"),
        ({"command": "a", "resumable": True}, ".command"),
        ({"command": "a", "resumable": {}}, ".command"),
        ({"resumable": "sometimes"}, ".resumable"),
        ({"resumable": None}, ".resumable"),
        ({"resumable": {"max_retries": -1}}, ".resumable.max_retries"),
        ({"resumable": {"max_retries": 1.5}}, ".resumable.max_retries"),
        ({"resumable": {"tries": 1}}, ".resumable.tries"),
        ({"runs": {}}, ".runs"),
    ],
)
def test_what_a_benchmark_cannot_be(benchmark: Any, place: str) -> None:
    assert list(problems_of(config(benchmarks={"gpqa": benchmark}))) == [f"driver.benchmarks.gpqa{place}"]


@pytest.mark.parametrize(
    ("resumable", "retries"),
    [(True, 3), ("yes", 3), ({}, 3), ({"max_retries": 0}, 0), (False, None), ("off", None)],
)
def test_resumable(resumable: Any, retries: int | None) -> None:
    limits = loaded(config(benchmarks={"g": {"resumable": resumable}})).driver.benchmarks["g"].resume_config
    assert (limits.max_retries if limits else None) == retries


def test_a_command_may_prepare_and_keep_an_empty_run() -> None:
    loaded(config(benchmarks={"g": {"command": "a", "prepare": {"x": 1}, "run": {}, "resumable": False}}))


def test_the_policy_is_wired_by_name_port_and_host() -> None:
    services = {"policy": vllm(port=8123, served_model_name="nice")}
    wiring = loaded(config(services, driver={"policy_host": "10.1.2.3"})).policy_wiring
    assert wiring == PolicyWiring("http://10.1.2.3:8123/v1", "nice")
    assert wiring.run_values()["policy_api_key"]
    router = loaded(config({"policy": pair(port=9000)}, {"a": pool(), "b": pool()})).policy_wiring
    assert router == PolicyWiring("http://localhost:9000/v1", "/ckpt")
    assert loaded(config(policy=None)).policy_wiring is None


@pytest.mark.parametrize("key", ["policy_base_url", "policy_model_name", "policy_api_key"])
def test_a_benchmark_may_not_set_what_the_policy_does(key: str) -> None:
    benchmarks: dict[str, Any] = {"ok": {}, "bad": {"run": {key: None}}}
    problems = problems_of(config(benchmarks=benchmarks))
    assert list(problems) == [f"driver.benchmarks.bad.run.{key}"]
    loaded(config(benchmarks=benchmarks, policy=None))


def test_the_policy_serves_a_model() -> None:
    assert "ray" in problems_of(config({"policy": ray()}))["driver.policy_model"]
    assert "services are" in problems_of(config(policy="zzz"))["driver.policy_model"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("policy_model_type", None),
        ("policy_model_type", "a\nb"),
        ("gym_install", {}),
        ("gym_install", {"ref": ""}),
        ("gym_install", {"ref": "--upload-pack=x"}),
        ("gym_install", {"ref": "a", "repo": "-x"}),
        ("container", None),
        ("mounts", ["a:b"]),
        ("env", {"A": "x"}),
    ],
)
def test_a_wrong_field_of_the_driver(field: str, value: Any) -> None:
    (where,) = problems_of(config(driver={field: value}))
    assert where.startswith(f"driver.{field}")


def test_no_model_type_is_empty_text() -> None:
    assert loaded(config(driver={"policy_model_type": ""})).driver.policy_model_type == ""


def test_one_results_file_for_several_evaluations_is_warned_of() -> None:
    run = {"run": {"output_jsonl_fpath": "/r/all.jsonl"}}
    (both,) = warnings_of(config(benchmarks={"a": run, "b": run}))
    assert "b.run.output_jsonl_fpath" in both and "'a'" in both
    (again,) = warnings_of(config(benchmarks={"a": {**run, "resumable": True}}))
    assert "every run" in again
    relative = {"run": {"output_jsonl_fpath": "out/all.jsonl"}, "resumable": True}
    assert not warnings_of(config(benchmarks={"a": relative, "b": relative}))
    assert not warnings_of(config(benchmarks={"a": run}))
