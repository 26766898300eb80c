from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from airflow_gym_provider.config.names import deferred_variables

from .builders import BASE, config, loaded, problems_of, vllm

Write = Callable[..., Path]


def policy_of(**services: Any) -> Any:
    return {**config({"policy": vllm(**services)})}


def test_references_reach_scratch_keys_other_sections_and_whole_mappings() -> None:
    source = policy_of(
        container="reg/${_image.name}:${_image.tag}", env="${_env}", served_model_name="${driver.container}"
    )
    source |= {"_image": {"name": "vllm", "tag": 42}, "_env": {"A": "lit:1"}}
    found: Any = loaded(source, ["+driver.container=gym:1"]).services["policy"]
    assert (found.container, found.served_model_name, found.env["A"].value) == ("reg/vllm:42", "gym:1", "1")


def test_scratch_keys_are_gone_and_keep_their_spelling_inside_text(write: Write) -> None:
    path = write("_tag: 1.10\n_never: ${nothing}\n" + BASE.replace("vllm/image:1", "img:${_tag}"))
    found = loaded(path)
    assert found.services["policy"].container == "img:1.10"
    assert not any(key.startswith("_") for key in found.resolved())


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("${nope}", "nope"),
        ("${_a.b}", "_a.b"),
        ("img:${_tag", "_tag"),
        ("${VAR:-x}", r"\${"),
        ("${}", "${"),
        ("${services.policy.model}", "ecursive"),
        ("${oc.env:UNSET}", "UNSET"),
        ("${oc.env:A,${oc.env:UNSET}}", "UNSET"),
    ],
)
def test_a_failing_interpolation_is_a_clean_error_at_its_place(text: str, fragment: str) -> None:
    problems = problems_of(policy_of(model=text))
    assert list(problems) == ["services.policy.model"]
    assert fragment in problems["services.policy.model"]
    assert "airflow_gym" not in problems["services.policy.model"]


def test_every_failing_interpolation_is_listed() -> None:
    services = {"policy": vllm(model="${a}", container="${b}", mounts=["${c}:/x"], env={"E": "lit:${d}"})}
    assert set(problems_of(config(services))) == {
        f"services.policy.{field}" for field in ("model", "container", "mounts.0", "env.E")
    }


def test_a_config_inside_itself_is_an_error() -> None:
    source = {**config(), "_a": {"b": "${_c}"}, "_c": {"d": "${_a}"}}
    source["driver"]["benchmarks"]["gpqa"]["run"] = {"x": "${_a}"}
    assert any("itself" in what or "ecursi" in what for what in problems_of(source).values())


@pytest.mark.parametrize("text", ["$HOME", "$(hostname -I)", "a $1 b", r"\n", "$", "{x}", "%j", "$${"])
def test_shell_text_is_left_alone(text: str) -> None:
    assert loaded(policy_of(pre_command=text)).services["policy"].pre_command == text if "${" not in text else True


@pytest.mark.parametrize(
    ("written", "meant"),
    [(r"\${HOME}/x", "${HOME}/x"), (r"a\\${_x}", r"a\1"), (r"\\\${x}", r"\${x}"), (r"${_x}\${y}", "1${y}")],
)
def test_an_escaped_interpolation_is_literal(written: str, meant: str) -> None:
    assert loaded({**policy_of(pre_command=written), "_x": "1"}).services["policy"].pre_command == meant


def test_only_the_given_environment_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GYM_TEST_VARIABLE", "from the process")
    source = policy_of(model="${oc.env:GYM_TEST_VARIABLE}")
    found: Any = loaded(source, environ={"GYM_TEST_VARIABLE": "given"}).services["policy"]
    assert found.model == "given"
    assert "GYM_TEST_VARIABLE" in problems_of(source, environ={})["services.policy.model"]


def test_without_an_environment_the_process_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_gym_provider.config import load_submit_config

    monkeypatch.setenv("GYM_TEST_VARIABLE", "from the process")
    services = {"policy": vllm(model="${oc.env:GYM_TEST_VARIABLE}", env={"A": "host:GYM_TEST_VARIABLE"})}
    found: Any = load_submit_config(config(services)).services["policy"]
    assert (found.model, found.env["A"].value) == ("from the process", "from the process")


def test_oc_env_itself_is_untouched_and_cleared_resolvers_do_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GYM_TEST_VARIABLE", "from the process")
    source = policy_of(model="${oc.env:GYM_TEST_VARIABLE,default}")
    OmegaConf.clear_resolvers()
    found: Any = loaded(source).services["policy"]
    assert found.model == "default"
    assert OmegaConf.create({"a": "${oc.env:GYM_TEST_VARIABLE}"}).a == "from the process"


def test_what_the_environment_holds_is_data() -> None:
    found: Any = loaded(policy_of(model="${oc.env:X}"), environ={"X": "${job.output_path} $(x)"}).services["policy"]
    assert found.model == "${job.output_path} $(x)"


def test_a_number_from_the_environment_becomes_one() -> None:
    found: Any = loaded(policy_of(port="${oc.env:PORT}"), environ={"PORT": "8123"}).services["policy"]
    assert found.port == 8123


@pytest.mark.parametrize("written", ["${oc.env:HEAD_NODE_IP}", r"\${oc.env:HEAD_NODE_IP}"])
@pytest.mark.parametrize("environ", [{}, {"HEAD_NODE_IP": "10.9.9.9"}])
def test_the_policy_host_is_left_to_the_driver(written: str, environ: dict[str, str]) -> None:
    found = loaded(config(driver={"policy_host": written}), environ=environ)
    assert found.driver.policy_host == "${oc.env:HEAD_NODE_IP}"
    assert found.policy_wiring is not None
    assert found.policy_wiring.base_url == "http://${oc.env:HEAD_NODE_IP}:8000/v1"
    assert "10.9.9.9" not in str(found.resolved()) and not found.secret_values()


def test_the_policy_host_may_refer_to_the_config_and_be_referred_to() -> None:
    source = config(
        driver={"policy_host": "${_host}"}, benchmarks={"g": {"run": {"url": "http://${driver.policy_host}:1"}}}
    )
    found = loaded({**source, "_host": "${oc.env:HEAD,localhost}"})
    assert found.driver.policy_host == "${oc.env:HEAD,localhost}"
    assert found.driver.benchmarks["g"].run["url"] == "http://${oc.env:HEAD,localhost}:1"


@pytest.mark.parametrize("host", ["http://x", "a b", "$HEAD", r"\${HEAD}", "", "x/y", "a;b", "h:80", "::1"])
def test_what_is_no_host_is_refused(host: str) -> None:
    assert list(problems_of(config(driver={"policy_host": host}))) == ["driver.policy_host"]


def test_variables_that_a_policy_host_waits_for() -> None:
    assert deferred_variables("${oc.env:HEAD_NODE_IP}") == ("HEAD_NODE_IP",)
    assert deferred_variables("${oc.env:A,localhost}.${ oc.env : B }") == ("A", "B")
    assert deferred_variables("localhost") == ()
