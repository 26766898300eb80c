"""Who takes a secret for what belongs where a variable is named does not read it in the refusal."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_gym_provider.config import SubmitConfigError, check_render_time
from airflow_gym_provider.config.hiding import name_to_show

from .builders import config, loaded, problems_of

SECRETS = (
    "hf_AbCdEf0123456789",
    "sk-AbCdEf0123456789",
    "eyJhbGciOiJIUzI1NiJ9",
    "correcthorse",
    "JBSWY3DPEHPK3PXPJBSWY3DP",
)
COLLECTOR = {"endpoint": "https://x", "service_name": "s", "gym_telemetry": False}


def everything_told(source: dict[str, Any]) -> str:
    """All problems, whenever they are found: loading, rendering, submitting."""
    try:
        found = loaded(source)
        for later in (lambda: check_render_time(found), lambda: found.forwarded_environ({})):
            try:
                later()
            except SubmitConfigError as error:
                return str(error)
    except SubmitConfigError as error:
        return f"{error} {error!r} {error.problems!r}"
    raise AssertionError("the config was accepted")


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("form", ["{}", "HF_TOKEN={}", "HF_TOKEN:{}", "host:{}", "hf_token={}", "HF_TOKEN = {}"])
@pytest.mark.parametrize(
    "place",
    [
        lambda text: config(compute={"forward_env": [text]}),
        lambda text: config(otel={**COLLECTOR, "token_env": text}),
        lambda text: config(driver={"env": {"A": f"host:{text}"}}),
        lambda text: config(driver={"env": {"A": f"runtime:{text}", "B": "host:NOT_SET"}}),
        lambda text: config(driver={"env": {f"{text}:-": "lit:x"}}),
        lambda text: config(driver={"env": {"A": "lit:${oc.env:" + text.replace(":", "_") + "}"}}),
    ],
    ids=["forward_env", "token_env", "host", "runtime", "a key of env", "oc.env"],
)
def test_a_value_in_the_place_of_a_name_is_not_repeated(place: Any, form: str, secret: str) -> None:
    told = everything_told(place(form.format(secret)))
    assert secret not in told


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("HF_TOKEN", "HF_TOKEN"),
        ("AWS_SECRET_ACCESS_KEY_2", "AWS_SECRET_ACCESS_KEY_2"),
        ("HF_TOKEN=", "HF_TOKEN=…"),
        ("HF_TOKEN=hf_x", "HF_TOKEN=…"),
        ("HF_TOKEN:a:b", "HF_TOKEN:…"),
        ("host:HF_TOKEN", "host:HF_TOKEN"),
        ("host:hf_AbCdEf", "host:…"),
        ("1A", "1A"),
        ("hunter2", None),
        ("hunter2=x", None),
        ("my_token", None),
        ("AKIAIOSFODNN7EXAMPLE", None),
    ],
)
def test_what_may_be_shown_of_a_name(text: str, shown: str | None) -> None:
    assert name_to_show(text) == shown


def test_the_refusal_names_the_place_what_may_be_shown_and_the_cure() -> None:
    problems = problems_of(config(compute={"forward_env": ["HF_TOKEN=hf_1", "hf_AbCdEf-0123"]}))
    first, second = problems["compute.cluster.forward_env.0"], problems["compute.cluster.forward_env.1"]
    assert first.startswith("'HF_TOKEN=…' is not the name of an environment variable")
    assert second.startswith("what is there (not shown, as it may be a secret) is not the name")
    assert all("write the name alone" in what for what in (first, second))


def test_a_blank_that_is_missing_in_yaml_is_told() -> None:
    source = config(driver={"env": {"HF_TOKEN:hf_AbCdEf0123": None}})
    problems = problems_of(source)
    assert list(problems) == ["driver.env.HF_TOKEN:…"]
    assert "in YAML a blank comes after the colon" in problems["driver.env.HF_TOKEN:…"]


@pytest.mark.parametrize("override", ["+driver.env.HF_TOKEN:hf_AbCdEf0123", "+driver.env.HF_TOKEN hf_AbCdEf0123"])
def test_an_override_without_its_sign_is_named_without_its_value(override: str) -> None:
    problems = problems_of(config(), [override])
    assert list(problems) == ["override '+driver.env.HF_TOKEN'"]
    assert "hf_AbCdEf0123" not in str(problems)


def test_ordinary_names_stay_in_the_messages_and_what_is_not_set_is_known() -> None:
    source = config(driver={"env": {"A": "host:MY_NAME", "B": "host:my_name", "C": "lit:${oc.env:OTHER}"}})
    with pytest.raises(SubmitConfigError) as refusal:
        loaded(source)
    told = str(refusal.value)
    assert "host:MY_NAME is not set" in told and "environment variable OTHER is not set" in told
    assert {problem.unset for problem in refusal.value.problems} == {"MY_NAME", "my_name", "OTHER"}
