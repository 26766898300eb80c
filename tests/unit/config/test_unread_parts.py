"""What cannot be read or merged is told with its place, and nothing is called missing that may stand there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .builders import BASE, config, problems_of

Write = Callable[..., Path]


@pytest.mark.parametrize(
    ("first", "then", "place", "kinds"),
    [
        (
            "compute: {cluster: {node_pools: [a]}}",
            BASE,
            "compute.cluster.node_pools",
            "a mapping in two.yaml and a list in",
        ),
        (
            BASE,
            "compute: {cluster: {node_pools: [a]}}",
            "compute.cluster.node_pools",
            "a list in two.yaml and a mapping in",
        ),
        (BASE, "driver: [x]", "driver", "a list in two.yaml and a mapping in"),
        (BASE, "services: {policy: [x]}", "services.policy", "a list in two.yaml and a mapping in"),
    ],
)
def test_a_list_over_a_mapping_is_told_with_place_kinds_and_cure(
    write: Write, first: str, then: str, place: str, kinds: str
) -> None:
    problems = problems_of([write(first, "one.yaml"), write(then, "two.yaml")])
    assert list(problems) == [place]
    assert kinds in problems[place] and "cannot be merged" in problems[place] and "same kind" in problems[place]


def test_every_clash_is_told_and_what_comes_after_them_is_merged(write: Write) -> None:
    wrong = "services: [x]\ncompute: {cluster: {account: [x], node_pools: [a]}}\ndriver: {container: other}\n"
    problems = problems_of([write(BASE), {"job": {"output_path": "relative"}}, write(wrong, "wrong.yaml")])
    assert list(problems) == ["services", "compute.cluster.node_pools", "compute.cluster.account", "job.output_path"]


def test_a_fragment_that_clashes_is_named(write: Write) -> None:
    write("# @package _global_\ncompute: {cluster: {node_pools: [a]}}\n", "cluster/odd.yaml")
    problems = problems_of(write("defaults: [_self_, cluster: odd]\n" + BASE))
    assert list(problems) == ["compute.cluster.node_pools"]
    assert "a list in cluster/odd.yaml" in problems["compute.cluster.node_pools"]


REST = """\
driver: {policy_model: policy, container: "${_images.gym}", benchmarks: {gpqa: {prot: 1}}}
compute: {cluster: {type: slurm}}
job: {}
"""
OVERRIDES = ["services.policy.port=1", "~services.judge", "@policy.model=/x", "@run.limit=1"]


@pytest.mark.parametrize("text", ["a: [1\n", "- a\n", None])
def test_what_may_stand_in_a_file_that_was_not_read_is_not_called_missing(write: Write, text: str | None) -> None:
    broken = write("").with_name("not-there.yaml") if text is None else write(text, "broken.yaml")
    problems = problems_of([broken, write(REST, "rest.yaml")], OVERRIDES)
    first, *others = problems
    assert broken.name in first
    assert others == ["driver.benchmarks.gpqa.prot"], "what is wrong whatever stands there is told all the same"


@pytest.mark.parametrize("head", ["defaults: [services: nope]\n", "defaults: [loop]\n"])
def test_nor_is_what_may_stand_in_a_fragment_that_is_missing(write: Write, head: str) -> None:
    write("defaults: [loop]\n", "loop.yaml")
    problems = problems_of(write(head + REST, "main.yaml"), OVERRIDES)
    assert list(problems) == ["defaults", "driver.benchmarks.gpqa.prot"]


def test_a_defaults_list_in_a_mapping_is_the_only_mistake() -> None:
    source = {**config(), "defaults": ["cluster"]}
    del source["services"]
    assert list(problems_of(source)) == ["defaults"]


@pytest.mark.parametrize(
    ("override", "cure"),
    [
        ("compute.cluster.node_pools=[1]", "compute.cluster.node_pools is a mapping in the config and a list here"),
        ("compute.cluster={node_pools: [1]}", "~compute.cluster.node_pools and then add it"),
        ("++driver.benchmarks.gpqa.run.a={b: 1}", "driver.benchmarks.gpqa.run.a is a list in the config and a mapping"),
        ("driver.benchmarks.gpqa.run={limit: 5}", "write +driver.benchmarks.gpqa.run.limit=... or ++driver.bench"),
        ("services.policy={contaner: x}", "did you mean 'container'?"),
    ],
)
def test_an_override_that_does_not_fit_is_told_with_its_cure(override: str, cure: str) -> None:
    source: dict[str, Any] = config(benchmarks={"gpqa": {"run": {"a": [1]}}})
    ((place, what),) = problems_of(source, [override]).items()
    assert place == f"override {override.split('=')[0]!r}"
    assert what.startswith("cannot be applied: ") and cure in what


def test_the_cure_of_a_clash_works() -> None:
    overrides = ["~compute.cluster.node_pools", "+compute.cluster.node_pools=[1]"]
    assert list(problems_of(config(), overrides)) == ["compute.cluster.node_pools"]
