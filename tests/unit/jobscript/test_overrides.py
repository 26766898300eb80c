from __future__ import annotations

import math
from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import example, given, settings
from hypothesis import strategies as st

from airflow_gym_provider.config import SubmitConfigError
from airflow_gym_provider.jobscript.overrides import override_tokens

from .texts import NASTY, SHORT_TEXT, TEXT

settings.load_profile("jobscript")

SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), TEXT)
KEYS = st.from_regex(r"\A[a-z_][a-z0-9_-]{0,8}\Z").filter(
    lambda key: key not in ("true", "false", "null", "nan", "inf")
)
# One argument holds one of the longest texts, not several of them: inside of a list they are short.
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), SHORT_TEXT),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS | st.integers(), inner, max_size=4),
    max_leaves=8,
)


def _parsed(tokens: list[str]) -> dict[str, Any]:
    parser = OverridesParser.create()
    found = {}
    for token in tokens:
        override = parser.parse_override(token)
        assert override.is_add() and not override.is_sweep_override(), token
        found[override.key_or_group] = override.value()
    return found


@given(st.lists(VALUES, max_size=3))
@example(NASTY)
@example([{"num_tasks": 45, "waivable": ["timeout", "transient"]}, {"num_tasks": 5}])
@example(
    ["true", "null", "NaN", "1", "1.0", "0x10", "1e5", "", "a b", "a,b", "[x]", "{a:b}", "'", '"', "\\", '\\"', "a:b"]
)
def test_hydra_reads_back_exactly_the_value(value: list[Any]) -> None:
    (read,) = _parsed(override_tokens({"key": value}, "run")).values()
    assert repr(read) == repr(value)


@given(SCALARS)
def test_a_single_value_keeps_its_type(value: Any) -> None:
    (read,) = _parsed(override_tokens({"key": value}, "run")).values()
    assert type(read) is type(value) and read == value


def test_not_a_number_stays_one() -> None:
    (read,) = _parsed(override_tokens({"key": math.nan}, "run")).values()
    assert math.isnan(read)


def test_nested_mappings_become_dotted_paths_in_order() -> None:
    tree = {
        "split": "benchmark",
        "head_server": {"port": 11001, "host": "127.0.0.1"},
        "tags": [],
        "extra": {},
        "max-tokens": 5,
    }
    assert override_tokens(tree, "run") == [
        "+split=benchmark",
        "+head_server.port=11001",
        '+head_server.host="127.0.0.1"',
        "+tags=[]",
        "+extra={}",
        "+max-tokens=5",
    ]


def test_an_interpolation_is_left_to_the_driver() -> None:
    assert override_tokens({"key": "${oc.env:API_KEY}"}, "run") == ['+key="${oc.env:API_KEY}"']


@pytest.mark.parametrize("key", ["two words", "a=b", "1", "", "a..b", "naïve", "a\nb", "+a", "a'b"])
def test_keys_that_hydra_has_no_word_for_are_refused_by_name(key: str) -> None:
    with pytest.raises(SubmitConfigError) as refusal:
        override_tokens({key: 1, "fine": 2}, "driver.benchmarks.x.run")
    assert f"driver.benchmarks.x.run.{key}" in str(refusal.value)


@pytest.mark.parametrize(
    ("values", "place"),
    [({"a.b": 1, "a": {"b": 2}}, "a.b"), ({"a.b": 1, "a": 2}, "a"), ({"a": 1, "a.b.c": 2}, "a.b.c")],
)
def test_a_value_given_twice_is_refused_as_hydra_would(values: dict[str, Any], place: str) -> None:
    with pytest.raises(SubmitConfigError) as refusal:
        override_tokens(values, "run")
    assert [problem.where for problem in refusal.value.problems] == [f"run.{place}"]
    assert override_tokens({"a": {}, "a.b": 1, "ab": 2}, "run") == ["+a={}", "+a.b=1", "+ab=2"]


def test_every_wrong_value_is_listed_and_a_megabyte_is_too_long_for_an_argument() -> None:
    values = {"a": "x" * 1_000_000, "b": [{"two words": 1}], "c": "fine", "d": b"bytes" and object()}
    with pytest.raises(SubmitConfigError) as refusal:
        override_tokens(values, "run")
    assert [problem.where for problem in refusal.value.problems] == ["run.a", "run.b", "run.d"]
    assert "131071" in str(refusal.value)
