from __future__ import annotations

import copy
import json
import pickle
import re
import warnings
from typing import Any

import pytest

from airflow_gym_provider.config import (
    EnvValue,
    SubmitConfig,
    SubmitConfigError,
    SubmitConfigWarning,
    load_submit_config,
)
from airflow_gym_provider.jobscript import render_job_script, results_spec

from .builders import config, loaded, pair, pool, problems_of, vllm

SECRET = "CANARY-7f3a"


def with_env(**env: Any) -> dict[str, Any]:
    return config({"policy": vllm(env=env)})


@pytest.fixture
def secretive() -> SubmitConfig:
    source = with_env(HF_TOKEN="host:HF_TOKEN", MIXED="lit:x-${oc.env:HF_TOKEN}", RT="runtime:HF_TOKEN")
    source["driver"]["env"] = {"KEY": "host:HF_TOKEN"}
    source["driver"]["benchmarks"]["gpqa"] = {"run": {"judge": {"api_key": "${oc.env:HF_TOKEN}"}}}
    return loaded(source, environ={"HF_TOKEN": SECRET})


def test_values_are_there_for_the_job_script(secretive: SubmitConfig) -> None:
    env = secretive.services["policy"].env
    assert {name: (value.kind, value.value) for name, value in env.items()} == {
        "HF_TOKEN": ("host", SECRET),
        "MIXED": ("lit", f"x-{SECRET}"),
        "RT": ("runtime", "HF_TOKEN"),
    }
    assert env["HF_TOKEN"].reference == "host:HF_TOKEN"
    assert secretive.secret_values() == {SECRET}


def test_nothing_that_is_shown_or_stored_holds_a_secret(secretive: SubmitConfig) -> None:
    shown = [repr(secretive), str(secretive), repr(secretive.services["policy"]), repr(secretive.driver.env)]
    shown += [secretive.resolved_yaml(), json.dumps(secretive.resolved()), f"{secretive.services['policy'].env}"]
    assert not [text for text in shown if SECRET in text]


def test_references_are_written_back_and_work_again(secretive: SubmitConfig) -> None:
    resolved = secretive.resolved()
    assert resolved["services"]["policy"]["env"] == {
        "HF_TOKEN": "host:HF_TOKEN",
        "MIXED": "lit:x-${oc.env:HF_TOKEN}",
        "RT": "runtime:HF_TOKEN",
    }
    assert resolved["driver"]["benchmarks"]["gpqa"]["run"]["judge"] == {"api_key": "${oc.env:HF_TOKEN}"}
    again = loaded(resolved, environ={"HF_TOKEN": "other-value"})
    assert again.services["policy"].env["MIXED"].value == "x-other-value"
    assert again.resolved() == resolved


def test_what_is_no_credential_is_shown_as_it_resolves() -> None:
    source = {**config(), "job": {"output_path": "${oc.env:SCRATCH}/runs"}}
    found = loaded(source, environ={"SCRATCH": "/lustre/me"})
    assert found.resolved()["job"]["output_path"] == "/lustre/me/runs"
    assert found.secret_values() == set(), "a masked path could not be found by anybody"


def test_env_values_refuse_to_be_stored_or_changed() -> None:
    value = EnvValue("host", "host:T", SECRET)
    with pytest.raises(TypeError, match="resolved") as refusal:
        pickle.dumps(value)
    assert SECRET not in str(refusal.value)
    with pytest.raises(AttributeError):
        value.value = "x"  # type: ignore[misc]
    assert copy.deepcopy(value) is value and copy.copy(value) is value
    assert SECRET not in f"{value} {value!r} {[value]}"
    assert value == EnvValue("host", "host:T", SECRET) != EnvValue("host", "host:T", "y") and value != "x"


@pytest.mark.parametrize(
    "text", [SECRET, f"LIT:{SECRET}", f" lit:{SECRET}", f"hots:{SECRET}", f"{SECRET}${{oops", f"lit:{SECRET}${{"]
)
def test_a_value_without_its_prefix_is_refused_and_not_repeated(text: str) -> None:
    problems = problems_of(with_env(TOKEN=text))
    assert list(problems) == ["services.policy.env.TOKEN"]
    assert SECRET not in str(problems)


@pytest.mark.parametrize("value", [None, 5, 1.5, True, [SECRET], {"a": SECRET}])
def test_a_value_that_is_no_text_is_refused_and_not_repeated(value: Any) -> None:
    problems = problems_of(with_env(TOKEN=value))
    assert list(problems) == ["services.policy.env.TOKEN"]
    assert SECRET not in str(problems)


def test_what_cannot_be_rendered_is_refused_without_what_the_environment_held() -> None:
    source = config({"policy": vllm(extra_args="--api-key '${oc.env:KEY}")})
    with pytest.raises(SubmitConfigError) as refusal:
        render_job_script(loaded(source, environ={"KEY": SECRET}), "gpqa", "/r/gpqa")
    assert "extra_args" in str(refusal.value) and SECRET not in str(refusal.value)
    source = config(benchmarks={"g": {"run": {"output_jsonl_fpath": r"${oc.env:KEY}/\${oc.env:X}"}}})
    with pytest.raises(SubmitConfigError) as refusal:
        results_spec(loaded(source, environ={"KEY": SECRET}), "g", "/r/g")
    assert "output_jsonl_fpath" in str(refusal.value) and SECRET not in str(refusal.value)


@pytest.mark.parametrize("env", [None, [SECRET], SECRET])
def test_an_env_that_is_no_mapping_is_refused_and_not_repeated(env: Any) -> None:
    problems = problems_of(config({"policy": vllm(env=env)}))
    assert list(problems) == ["services.policy.env"]
    assert SECRET not in str(problems)


@pytest.mark.parametrize(("text", "told"), [("runtime:1ABC", "'1ABC' is none"), ("runtime:hf-7Fx2", "is not shown")])
def test_what_is_no_variables_name_is_repeated_only_when_it_is_too_short_for_a_secret(text: str, told: str) -> None:
    what = problems_of(with_env(X=text))["services.policy.env.X"]
    assert told in what and "hf-7Fx2" not in what


@pytest.mark.parametrize("text", ["host:", "host:1A", "host:A B", "host:A\n", "runtime:", "runtime:A-B", "runtime:${x"])
def test_only_a_variables_name_may_follow(text: str) -> None:
    assert list(problems_of(with_env(FOO=text), environ={"A": "x", "1A": "x"})) == ["services.policy.env.FOO"]


@pytest.mark.parametrize("kind", ["host", "runtime"])
def test_a_secret_that_was_written_in_the_place_of_its_variables_name_is_not_repeated(kind: str) -> None:
    problems = problems_of(with_env(TOKEN=f"{kind}:{SECRET}"), environ={"TOKEN": "x"})
    assert list(problems) == ["services.policy.env.TOKEN"]
    assert SECRET not in str(problems)


@pytest.mark.parametrize("name", ["1A", "A-B", "A B", "", "A\n", "ä"])
def test_an_entry_is_called_like_a_variable(name: str) -> None:
    assert any("environment variable" in what for what in problems_of(with_env(**{name: f"lit:{SECRET}"})).values())


def test_a_host_variable_must_be_set_but_may_be_empty() -> None:
    assert "MAYBE" in problems_of(with_env(A="host:MAYBE"))["services.policy.env.A"]
    assert loaded(with_env(A="host:MAYBE"), environ={"MAYBE": ""}).services["policy"].env["A"].value == ""


def test_prefixes_inside_a_literal_are_text() -> None:
    env = loaded(with_env(A="lit:host:X", B="lit:", C="host:C"), environ={"C": "runtime:X"}).services["policy"].env
    assert {name: value.value for name, value in env.items()} == {"A": "host:X", "B": "", "C": "runtime:X"}


def test_a_secret_in_the_wrong_place_is_not_repeated_by_the_refusal() -> None:
    services = {"policy": vllm(port="${oc.env:T}", container="a\n${oc.env:T}")}
    problems = problems_of(config(services, compute={"walltime": "${oc.env:T}"}), environ={"T": SECRET})
    assert len(problems) == 3
    assert SECRET not in str(problems)


def test_secrets_of_tiers_and_of_what_is_forwarded_are_known() -> None:
    tiers = pair(prefill={"node_pool": "a", "env": {"A": "host:A"}}, env={"B": "host:B"})
    source = config({"policy": tiers}, {"a": pool(), "b": pool()}, compute={"forward_env": ["C", "NOT_SET"]})
    source["otel"] = {"endpoint": "https://x", "service_name": "s", "gym_telemetry": False}
    environ = {"A": "a-value", "B": "b-value", "C": "c-value", "OTEL_TOKEN": "t-value", "D": "d-value"}
    assert loaded(source, environ=environ).secret_values() == {"a-value", "b-value", "c-value", "t-value"}


def test_forwarded_values_and_all_that_are_missing() -> None:
    source = config(compute={"forward_env": ["A", "B", "E"]}, otel={"endpoint": "https://x", "service_name": "s"})
    found = loaded(source)
    with pytest.raises(SubmitConfigError) as refusal:
        found.forwarded_environ({"E": "", "OTEL_TOKEN": "", "A": f"{SECRET}\x00"})
    assert [problem.where for problem in refusal.value.problems] == [
        "compute.cluster.forward_env.0",
        "compute.cluster.forward_env.1",
        "otel.token_env",
    ]
    assert SECRET not in str(refusal.value)
    environ = {"A": "1", "B": "", "E": "x\ny", "OTEL_TOKEN": "t", "OTHER": "z"}
    assert found.forwarded_environ(environ) == {"A": "1", "B": "", "E": "x\ny", "OTEL_TOKEN": "t"}


def test_forwarding_reads_the_process_by_default_and_asks_for_no_token_without_a_collector(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GYM_TEST_VARIABLE", "x")
    found = load_submit_config(config(compute={"forward_env": ["GYM_TEST_VARIABLE"]}), environ={})
    assert found.forwarded_environ() == {"GYM_TEST_VARIABLE": "x"}
    assert found.resolved()["compute"]["cluster"]["forward_env"] == ["GYM_TEST_VARIABLE"]


@pytest.mark.parametrize("name", ["host:A", "A=B", "1A", "", "A B"])
def test_only_names_are_forwarded(name: str) -> None:
    problems = problems_of(config(compute={"forward_env": ["OK", name]}))
    assert list(problems) == ["compute.cluster.forward_env.1"]


def test_paths_from_the_environment_are_no_secrets_unless_their_name_says_so() -> None:
    source = config()
    source["job"]["output_path"] = "${oc.env:EVALS}/nightly"
    source["driver"]["benchmarks"]["gpqa"] = {"run": {"a": "${oc.env:MY_TOKEN}", "b": "${oc.env:OTHER}"}}
    environ = {"EVALS": "/scratch/evals", "MY_TOKEN": "/looks/like+a+path", "OTHER": "canary"}
    assert loaded(source, environ=environ).secret_values() == {"/looks/like+a+path", "canary"}


EXPOSED = {
    "driver.benchmarks.gpqa.run.judge.api_key": r"\${oc.env:MY_TOKEN}",
    "driver.benchmarks.gpqa.prepare.headers": r"\${oc.env:MY_TOKEN}",
    "services.policy.extra_args": "MY_TOKEN: host:MY_TOKEN into the env",
    "compute.cluster.extra_args.comment": "MY_TOKEN: host:MY_TOKEN into the env",
}


@pytest.mark.parametrize("place", EXPOSED)
def test_a_credential_that_would_be_an_argument_is_warned_of_with_the_way_round_it(place: str) -> None:
    read = "--key=${oc.env:MY_TOKEN}"
    with pytest.warns(SubmitConfigWarning, match=f"{re.escape(place)}: what is read from MY_TOKEN is seen") as warned:
        load_submit_config(config({"policy": vllm()}), [f"++{place}='{read}'"], {"MY_TOKEN": SECRET})
    told = "\n".join(str(item.message) for item in warned)
    assert EXPOSED[place] in told and SECRET not in told


def test_what_reaches_its_program_in_another_way_is_not_warned_of() -> None:
    source = config({"policy": vllm(env={"A": "lit:${oc.env:MY_TOKEN}"}, pre_command="login ${oc.env:MY_TOKEN}")})
    source["driver"]["env"] = {"MY_TOKEN": "host:MY_TOKEN"}
    source["driver"]["benchmarks"]["gpqa"] = {"run": {"key": r"\${oc.env:MY_TOKEN}", "path": "${oc.env:SCRATCH}"}}
    with warnings.catch_warnings():
        warnings.simplefilter("error", SubmitConfigWarning)
        load_submit_config(source, environ={"MY_TOKEN": SECRET, "SCRATCH": "/s"})
