from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .builders import BASE, config, loaded, problems_of

Write = Callable[..., Path]
SCRATCH = "_images: {vllm: image:1}\n" + BASE.replace("vllm/image:1", "${_images.vllm}")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7031e56", "7031e56"),
        ("1.10", "1.10"),
        ("off", "off"),
        ("12:00:00", "12:00:00"),
        ("0755", "0755"),
        ("'a, b'", "a, b"),
        ("/my models/x", "/my models/x"),
        ("5", "5"),
        (r"\${x}", "${x}"),
        ("'${job.output_path}'", "/scratch/evals"),
    ],
)
def test_a_text_field_gets_the_text_of_the_override(write: Write, text: str, value: str) -> None:
    policy: Any = loaded(write(BASE), [f"services.policy.model={text}"]).services["policy"]
    assert policy.model == value


@pytest.mark.parametrize(
    ("text", "value"), [("2", 2), ("0.5", 0.5), ("true", True), ("null", None), ("[a,1]", ["a", 1])]
)
def test_run_gets_hydras_types(write: Write, text: str, value: Any) -> None:
    run = loaded(write(BASE), [f"driver.benchmarks.gpqa.run.split={text}"]).driver.benchmarks["gpqa"].run
    assert run == {"split": value}


def test_order_adding_forcing_and_deleting(write: Write) -> None:
    overrides = ["+services.policy.port=8001", "++services.policy.port=8002", "services.policy.port=8003"]
    overrides += ["++services.policy.env.A=lit:1", "~driver.container", "~driver.benchmarks.gpqa.run.split=benchmark"]
    found = loaded(write(BASE), overrides)
    policy: Any = found.services["policy"]
    assert (policy.port, policy.env["A"].value) == (8003, "1")
    assert (found.driver.container, found.driver.benchmarks["gpqa"].run) == ("python:3.12", {})


def test_a_mapping_is_merged_and_a_list_item_can_be_changed_or_deleted() -> None:
    source = config(compute={"forward_env": ["A", "B"]})
    found = loaded(
        source, ["compute.cluster.forward_env.0=C", "~compute.cluster.forward_env.1", "job={output_path: /z}"]
    )
    assert (found.cluster.forward_env, found.job.output_path) == (["C"], "/z")


@pytest.mark.parametrize(
    ("override", "fragment"),
    [
        ("services.policy.modle=x", "did you mean 'model'"),
        ("nope.a=1", "does not exist; to add it"),
        ("service.policy.model=x", "does not exist; did you mean 'services'?; to add it"),
        ("services.policy.model.x=1", "does not exist"),
        ("+services.policy.model=x", "exists already"),
        ("~services.policy.prot", "cannot be deleted"),
        ("~services.policy.model=other", "another value"),
        ("services.policy.model=a,b", "sweep"),
        ("services.policy.model=range(1,3)", "sweep"),
        ("services.policy.model", "grammar"),
        ("a b", "grammar"),
        ("cluster/x=y", "folder"),
        ("services@x=y", "folder"),
    ],
)
def test_an_override_that_cannot_be_applied_is_named(write: Write, override: str, fragment: str) -> None:
    place = f"override {override.split('=')[0]!r}"
    assert fragment in problems_of(write(BASE), [override])[place]


def test_all_faulty_overrides_are_named_and_none_shows_its_value(write: Write) -> None:
    overrides = [
        "a b=s3cr3t-1",
        "services.x.y=s3cr3t-2",
        "+services.policy.model=s3cr3t-3",
        "+services.policy.env.T=s3cr3t-4",
    ]
    problems = problems_of(write(BASE), overrides)
    assert len(problems) == 4
    assert "s3cr3t" not in str(problems)


def test_scratch_keys_change_but_are_not_added(write: Write) -> None:
    assert loaded(write(SCRATCH), ["_images.vllm=image:2"]).services["policy"].container == "image:2"
    for override in ("+_images.new=x", "++_images.new=x", "+_new=x", "_images.vlm=x"):
        assert f"override {override.split('=')[0]!r}" in problems_of(write(SCRATCH), [override])


def test_a_value_that_cannot_be_resolved_yet_can_still_be_replaced(write: Write) -> None:
    text = BASE.replace("org/model", "${oc.env:NOWHERE}")
    policy: Any = loaded(write(text), ["services.policy.model=x"]).services["policy"]
    assert policy.model == "x"
    assert (
        "exists already" in problems_of(write(text), ["+services.policy.model=x"])["override '+services.policy.model'"]
    )


def test_one_text_is_no_list_of_overrides(write: Write) -> None:
    assert "list" in problems_of(write(BASE), "a=b")["overrides"]  # type: ignore[arg-type]


def test_a_number_whose_spelling_is_lost_is_refused() -> None:
    source = config(compute={"extra_args": {"qos": "x"}})
    assert (
        "quotes"
        in problems_of(source, ["++compute.cluster.extra_args={comment: 1.10}"])["compute.cluster.extra_args.comment"]
    )
