"""A secret that is cut short, or taken out of a larger one, is hidden as well as the whole."""

from __future__ import annotations

import warnings

import pytest

from airflow_gym_provider.config import SubmitConfigError, SubmitConfigWarning, load_submit_config
from airflow_gym_provider.config.fields import shown
from airflow_gym_provider.config.hiding import hiding_by
from airflow_gym_provider.jobscript import render_job_script

from .builders import config, loaded, vllm

LONG = "eyJ" + "".join(chr(97 + number * 7 % 26) for number in range(400))


@pytest.mark.parametrize(
    "driver",
    [
        {"gym_install": {"ref": "main", "repo": "https://u:${oc.env:T}@git/x"}},
        {"benchmarks": {"gpqa": {"run": {"a": 1}, "resumable": "${oc.env:T}"}}},
    ],
)
def test_a_secret_is_hidden_before_a_message_is_cut(driver: dict[str, object]) -> None:
    source = config({"policy": vllm()})
    source["driver"] |= driver
    with pytest.raises(SubmitConfigError) as caught:
        load_submit_config(source, environ={"T": LONG + "\n"})
    assert LONG[:8] not in str(caught.value) and "…" in str(caught.value)


def test_so_it_is_while_a_script_is_made() -> None:
    options = "--max-model-len 32768 --gpu-memory-utilization 0.9 --name a --api-key ${oc.env:VLLM_TOKEN} 'x"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SubmitConfigWarning)
        found = loaded(
            config({"policy": vllm(extra_args=options + " --and-so-on" * 4)}), environ={"VLLM_TOKEN": "tok-" + LONG}
        )
    with pytest.raises(SubmitConfigError) as caught, found.hiding():
        render_job_script(found, "gpqa", "/out/gpqa")
    assert LONG[:8] not in str(caught.value)


def test_others_may_say_what_is_hidden() -> None:
    with hiding_by(lambda text: text.replace(LONG, "***")):
        assert shown(LONG) == "'***'"
    assert shown(LONG) == f"'{LONG[:99]}… (405 characters)"


@pytest.mark.parametrize(
    ("written", "given"),
    [
        ("${oc.decode:${oc.env:MY_TOKEN}}", "{a: \"Bearer a-long-secret\", b: ['another \\'secret', 7]}"),
        ("${oc.create:${oc.decode:${oc.env:MY_TOKEN}}}", '{a: "Bearer a-long-secret"}'),
        ("${oc.decode:${oc.env:MY_TOKEN}}", '"Bearer a-long-secret"'),
    ],
)
def test_a_text_that_a_resolver_takes_out_of_a_variable_is_hidden_too(written: str, given: str) -> None:
    source = config({"policy": vllm()})
    source["driver"]["benchmarks"]["gpqa"] = {"run": {"q": written}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SubmitConfigWarning)
        found = loaded(source, environ={"MY_TOKEN": given})
    assert "a-long" in str(found.driver.benchmarks["gpqa"].run)
    assert not any(text in found.resolved_yaml() for text in ("a-long", "another"))
    assert found.hide("x Bearer a-long-secret y") == "x *** y"


def test_a_mapping_for_env_that_was_read_stays_unseen() -> None:
    source = config({"policy": vllm()})
    source["driver"]["env"] = "${oc.decode:${oc.env:ENV}}"
    found = loaded(source, environ={"ENV": '{A: "lit:a-long-secret", B: "runtime:HOME"}'})
    assert found.driver.env["A"].value == "a-long-secret"
    assert "a-long" not in found.resolved_yaml() and "a-long" not in found.hide("it is a-long-secret")
    assert loaded(found.resolved()).driver.env["B"].reference == "runtime:HOME"


def test_a_value_with_its_prefix_that_was_read_is_hidden_without_it() -> None:
    found = loaded(config({"policy": vllm(env={"A": "${oc.env:A}"})}), environ={"A": "lit:a-long-secret"})
    assert found.hide("it is a-long-secret") == "it is ***"


def test_what_a_variable_only_chooses_is_no_secret() -> None:
    source = config({"policy": vllm(model="${_models.${oc.env:SIZE}}", env="${_env.${oc.env:SIZE}}")})
    source |= {"_models": {"small": "Qwen/Qwen3-8B"}, "_env": {"small": {"A": "lit:of-the-file"}}}
    found = loaded(source, environ={"SIZE": "small"})
    assert found.secret_values() == {"small"}
    assert "lit:of-the-file" in found.resolved_yaml()
