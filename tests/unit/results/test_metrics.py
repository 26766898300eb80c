"""gym's aggregate file to flat numbers."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_gym_provider.results import MetricsError, key_metrics

FOLDER = Path(__file__).parents[2] / "data" / "results"


def entry(name: str | None = "solver", **metrics: Any) -> dict[str, Any]:
    return {"agent_ref": {"name": name}, "agent_metrics": {"std/reward": 9}, "key_metrics": metrics}


def read(content: Any) -> dict[str, float]:
    return key_metrics(json.dumps(content).encode())[0]


@pytest.mark.parametrize("release", ["040", "070"])
def test_what_the_real_gym_writes(release: str) -> None:
    metrics, agents, notes = key_metrics((FOLDER / f"aggregate_metrics_{release}.json").read_bytes())
    assert (metrics["mean/reward"], metrics["pass@1/accuracy"], len(metrics)) == (0.2, 20.0, 6)
    assert (agents, notes) == (("demo_mcqa_simple_agent",), [])


def test_names_begin_with_the_agent_only_when_there_are_several() -> None:
    assert read([entry(**{"mean/reward": 0.5})]) == {"mean/reward": 0.5}
    assert read([entry("a", x=1), entry("b", x=2), entry("a", x=3)]) == {"a/x": 1, "b/x": 2, "a#2/x": 3}
    assert read(entry(x=1)) == {"x": 1}


@pytest.mark.parametrize("reference", [None, {}, {"name": None}, {"name": ""}, "solver"])
def test_an_agent_without_a_name(reference: Any) -> None:
    assert key_metrics(json.dumps([{"agent_ref": reference, "key_metrics": {}}]).encode())[1] == ("agent",)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, None, "0.5", True, [1], 10**400])
def test_what_is_no_finite_number_is_left_out_and_told(value: Any) -> None:
    metrics, _, notes = key_metrics(json.dumps([entry(x=value, y=1)]).encode())
    assert metrics == {"y": 1}
    assert notes[0].startswith("x is ")


@pytest.mark.parametrize(
    ("content", "left", "twice"),
    [
        ([entry("s", x=1), entry("s", x=2), entry("s#2", x=9)], {"s/x": 1.0}, "s#2/x"),
        ([entry("a", **{"b/x": 1, "x": 5}), entry("a/b", x=9)], {"a/x": 5.0}, "a/b/x"),
        ('[{"key_metrics": {"x": 0.1, "y": 1, "x": 0.9}}]', {"y": 1.0}, "x"),
        ('[{"key_metrics": {"x": 0.1, "y": 1, "x": 0.1, "x": 2}}]', {"y": 1.0}, "x"),
    ],
)
def test_a_name_that_stands_for_two_values_has_none(content: Any, left: dict[str, float], twice: str) -> None:
    data = content if isinstance(content, str) else json.dumps(content)
    metrics, _, notes = key_metrics(data.encode())
    assert (metrics, notes) == (left, [f"{twice} is there twice, and neither is taken,"])


def test_key_metrics_that_are_there_twice_are_none() -> None:
    with pytest.raises(MetricsError, match="no key_metrics for agent a"):
        key_metrics(b'[{"agent_ref": {"name": "a"}, "key_metrics": {"x": 1}, "key_metrics": {"x": 2}}]')


def test_names_numbers_and_remarks_are_bounded() -> None:
    """An agent's or a metric's name of a megabyte is not made anew for every metric, nor a remark for every null."""
    long = [entry("a" * 1_000_000, **{f"m{at}": 1 for at in range(1000)}), entry("b", **{"n" * 1_000_000: 1, "x": 2})]
    metrics, agents, notes = key_metrics(json.dumps(long).encode())
    assert (len(metrics), metrics["b/x"], max(map(len, metrics))) == (1001, 2.0, 205)
    assert max(map(len, agents)) == 200
    assert notes == [f"b/{'n' * 77}… is a name of 1000002 signs, which is left out,"]
    metrics, _, notes = key_metrics(json.dumps([entry(**{f"m{at}": None for at in range(100_000)}, x=1)]).encode())
    assert metrics == {"x": 1.0}
    assert (len(notes), notes[-1]) == (21, "and 99,980 more")
    metrics, _, notes = key_metrics(json.dumps([entry(**{f"m{at}": at for at in range(6000)})]).encode())
    assert (len(metrics), notes) == (5000, ["1,000 metrics more than the 5,000 that are taken are"])
    assert sum(map(len, key_metrics(json.dumps([entry(**{"m" * 500: [1] * 9999})]).encode())[2])) < 200


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b'[{"key_metrics"', "is not valid JSON"),
        (b"\xff\xfe\x00", "is not valid JSON"),
        (b"[" * 100_000, "is not valid JSON"),
        (b"[]", "is not a list"),
        (b"3", "is not a list"),
        (b'[1, {"key_metrics": {}}]', "is not a list"),
        (b'[{"agent_ref": {"name": "a"}}]', "no key_metrics for agent a"),
        (b'[{"key_metrics": [1]}]', "no key_metrics for agent agent"),
    ],
)
def test_what_is_no_aggregate_is_told(data: bytes, text: str) -> None:
    with pytest.raises(MetricsError, match=text):
        key_metrics(data)


@given(
    st.binary()
    | st.recursive(st.none() | st.floats() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)).map(
        lambda x: json.dumps(x).encode()
    )
)
def test_any_bytes_give_finite_numbers_or_one_kind_of_error(data: bytes) -> None:
    try:
        metrics, _, _ = key_metrics(data)
    except MetricsError:
        return
    json.dumps(metrics, allow_nan=False)
