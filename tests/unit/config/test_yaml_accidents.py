from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_gym_provider.config.scalars import Scalar, plain_value, read_plain

from .builders import BASE, loaded, problems_of

Write = Callable[..., Path]


@pytest.mark.parametrize(
    "text",
    [
        "12:00:00",
        "0755",
        "1.10",
        "7031e56",
        "off",
        "yes",
        "5",
        "1e3",
        "0x1F",
        "1_000",
        "2024-01-01",
        ".5",
        "+5",
        ".nan",
    ],
)
def test_a_text_field_keeps_what_was_written(write: Write, text: str) -> None:
    path = write(BASE.replace("container: vllm/image:1", f"container: {text}"))
    assert loaded(path).services["policy"].container == text


@pytest.mark.parametrize(("text", "kind"), [("true", "true"), ("null", "null"), ("[a]", "list"), ("{a: b}", "mapping")])
def test_a_text_field_refuses_what_is_no_text(write: Write, text: str, kind: str) -> None:
    problems = problems_of(write(BASE.replace("container: vllm/image:1", f"container: {text}")))
    assert list(problems) == ["services.policy.container"]
    assert kind in problems["services.policy.container"]


@pytest.mark.parametrize(
    ("text", "port"), [("'8001'", 8001), ("8_001", 8001), ("0x1f41", 8001), ("8001.0", 8001), ("!!int '8001'", 8001)]
)
def test_a_number_field_takes_numbers(write: Write, text: str, port: int) -> None:
    policy = loaded(write(BASE.replace("model: org/model", f"model: org/model\n    port: {text}"))).services["policy"]
    assert getattr(policy, "port", None) == port


@pytest.mark.parametrize("text", ["0755", "true", "80.5", "http", "null", "''", "0", "70000", "-1", "1:20"])
def test_a_number_field_refuses_the_rest(write: Write, text: str) -> None:
    problems = problems_of(write(BASE.replace("model: org/model", f"model: org/model\n    port: {text}")))
    assert list(problems) == ["services.policy.port"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("off", False),
        ("1.10", 1.1),
        ("1e-5", 1e-5),
        ("12:00:00", "12:00:00"),
        ("0755", "0755"),
        ("2024-01-01", "2024-01-01"),
        ("null", None),
        ("'1e5'", "1e5"),
        (".inf", math.inf),
    ],
)
def test_run_takes_values_as_their_type(write: Write, text: str, value: Any) -> None:
    run = loaded(write(BASE.replace("{split: benchmark}", f"{{a: {text}}}"))).driver.benchmarks["gpqa"].run
    assert run == {"a": value} and type(run["a"]) is type(value)


def test_keys_are_names_whatever_they_look_like(write: Write) -> None:
    path = write(BASE.replace("gpqa:\n      run: {split: benchmark}", "2024: {run: {on: 1, 1.10: 2}}"))
    benchmarks = loaded(path).driver.benchmarks
    assert list(benchmarks) == ["2024"]
    assert benchmarks["2024"].run == {"on": 1, "1.10": 2}


def test_a_duplicate_key_is_named_with_both_lines(write: Write) -> None:
    problems = problems_of(write(BASE.replace("model: org/model", "model: org/model\n    model: other")))
    assert "line 5" in problems["services.policy.model"] and "line 6" in problems["services.policy.model"]


def test_every_duplicate_is_named_beside_other_mistakes(write: Write) -> None:
    text = BASE.replace("model: org/model", "model: m\n    model: n\n    prot: 1") + "job: {output_path: /other}\n"
    assert {"services.policy.model", "services.policy.prot", "job"} <= set(problems_of(write(text)))


def test_anchors_and_merge_keys(write: Write) -> None:
    pools = "_pool: &pool {partition: batch, nodes: 1}\n" + BASE.replace(
        "main: {partition: batch, nodes: 1}", "main: {<<: *pool, nodes: 2}\n      spare: {<<: [*pool]}"
    )
    found = loaded(write(pools)).cluster.node_pools
    assert (found["main"].nodes, found["spare"].nodes, found["spare"].partition) == (2, 1, "batch")


@pytest.mark.parametrize("tag", ["!!python/object/apply:os.system ['true']", "!!python/name:os.system", "!custom x"])
def test_tags_are_refused_once_and_nothing_is_made_of_them(write: Write, tag: str) -> None:
    problems = problems_of(write(BASE.replace("model: org/model", f"model: {tag}")))
    assert list(problems) == ["services.policy.model"]
    assert "tag" in problems["services.policy.model"] and "line 5" in problems["services.policy.model"]


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("job:\n\toutput_path: /x\n", "not tabs"),
        ("a: [1, 2\n", "line"),
        ("a: *nowhere\n", "nowhere"),
        ("- a\n- b\n", "mapping"),
        ("just text\n", "mapping"),
        ("a: 1\n---\nb: 2\n", "single document"),
        ("a: &a [*a]\n", "contains itself"),
        ("a: " + "[" * 3000 + "]" * 3000, "too deeply"),
        ("? [a, b]\n: 1\n", "plain text"),
        ("a: \x01\n", "not YAML"),
    ],
)
def test_what_is_no_yaml_is_a_clean_error_with_the_place(write: Write, text: str, fragment: str) -> None:
    problems = problems_of(write(text))
    assert any(fragment in f"{where}: {what}" for where, what in problems.items()), problems
    assert any("submit.yaml" in f"{where}: {what}" for where, what in problems.items())


def test_a_nest_of_aliases_does_not_explode(write: Write) -> None:
    bomb = "_a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"_a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]\n" for level in range(1, 9)
    )
    assert "aliases" in problems_of(write(bomb + BASE))["submit.yaml"]


def test_an_empty_file_lacks_all_sections(write: Write) -> None:
    assert problems_of(write("")) == dict.fromkeys(("services", "compute", "driver", "job"), "is required")


def test_a_missing_value_marker_is_missing(write: Write) -> None:
    assert "???" in problems_of(write(BASE.replace("org/model", "???")))["services.policy.model"]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"a: \xff\xfe")
    for name, fragment in {"none.yaml": "No such file", "latin.yaml": "UTF-8", ".": "directory"}.items():
        ((where, what),) = problems_of(tmp_path / name).items()
        assert str(tmp_path) in where and fragment in what


def test_a_byte_order_mark_is_no_part_of_the_first_key(write: Write) -> None:
    assert loaded(write("\ufeff" + BASE)).cluster_name == "cluster"


@given(st.one_of(st.integers(), st.floats(allow_nan=False), st.booleans(), st.none()))
def test_python_spellings_of_plain_values_read_back(value: Any) -> None:
    spelled = (
        {None: "null", True: "true", False: "false"}.get(value)
        if value is None or value is True or value is False
        else None
    )
    text = spelled or str(value).replace("inf", ".inf")
    assert plain_value(read_plain(text)) == value


@given(st.text())
def test_reading_a_plain_scalar_never_fails_and_never_loses_the_text(text: str) -> None:
    value = read_plain(text)
    assert value is None or (value.text if isinstance(value, Scalar) else str(value).lower()) == (
        text if isinstance(value, Scalar) else text.lower()
    )
