"""Both readers of rollouts say the same, and what they say is what Python's own JSON says."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .rollout_files import AWKS, awk_reader, python_reader, rollout, rows_of

DATA = Path(__file__).parents[2] / "data" / "results"
COLUMNS = (
    "agent",
    "task",
    "rollout",
    "line",
    "reward",
    "input",
    "output",
    "reasoning",
    "milliseconds",
    "kind",
    "prompt",
)

NAMES = (
    "reward",
    "_ng_task_index",
    "_ng_rollout_index",
    "agent_ref",
    "name",
    "usage",
    "response",
    "ng_perf",
    'a"b',
    "\\",
)
PIECES = ('"', "\\", '\\"', "{", "}", "[", "]", ":", ",", "\n", "\t", "é", "漢", "\u2028", '"reward": 1,', "{}\n", " ")
texts = st.one_of(st.text(max_size=12), st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
numbers = st.one_of(st.integers(), st.floats(), st.sampled_from([1e-3, 1e300, -0.0, 5e-324, 1e22]))
scalars = st.one_of(st.none(), st.booleans(), numbers, texts)
names = st.one_of(st.sampled_from(NAMES), texts)
values = st.recursive(
    scalars, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(names, inner, max_size=3))
)
usages = st.dictionaries(st.sampled_from(["input_tokens", "output_tokens", "output_tokens_details"]), values)
lines = st.builds(
    dict.__or__,
    st.dictionaries(names, values, max_size=4),
    st.fixed_dictionaries(
        {},
        optional={
            "reward": values,
            "_ng_task_index": st.one_of(st.integers(0, 5), values),
            "_ng_rollout_index": st.one_of(st.integers(0, 3), values),
            "agent_ref": st.one_of(values, st.dictionaries(st.just("name"), values)),
            "failure_kind": values,
            "response": st.one_of(values, st.fixed_dictionaries({"output": values, "usage": usages})),
            "ng_perf": st.dictionaries(st.sampled_from(["prompt_tokens", "total_latency_ms"]), values),
            "responses_create_params": st.one_of(values, st.fixed_dictionaries({"input": values})),
        },
    ),
)


def one_row(reader: list[str], line: str) -> dict[str, str]:
    (found,) = rows_of(reader, line.encode() + b"\n")
    assert found.startswith("ok\trollouts\t"), found
    return dict(zip(COLUMNS, found.split("\t")[2:], strict=True))


def finite(value: Any) -> bool:
    return (
        isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e308 and math.isfinite(value)
    )


@pytest.mark.parametrize("awk", AWKS)
@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(lines, st.booleans(), st.sampled_from([None, 1])), max_size=12))
def test_both_say_the_same_of_any_json(awk: str, content: list[tuple[dict[str, Any], bool, int | None]]):
    told = [json.dumps(row, ensure_ascii=ascii) for row, ascii, _ in content]
    data = "".join(line + "\n" for line in told).encode("utf-8", "surrogatepass")
    rows = rows_of(awk_reader(awk), data)
    assert rows == rows_of(python_reader(), data)
    assert len(rows) == len(content)
    for (row, _, _), found in zip(content, rows, strict=True):
        reward = row.get("reward")
        assert (found.split("\t")[6] != "-") is finite(reward) or (isinstance(reward, int) and abs(reward) > 1e300)
        if finite(reward):
            assert float(found.split("\t")[6]) == reward


@pytest.mark.parametrize("awk", AWKS)
@settings(max_examples=25, deadline=None)
@given(lines, lines, st.data())
def test_both_say_the_same_of_torn_lines(awk: str, first: dict[str, Any], second: dict[str, Any], data: st.DataObject):
    torn = json.dumps(first)[: data.draw(st.integers(0, len(json.dumps(first))))]
    for content in (
        f"{torn}{json.dumps(second)}\n",
        f"{torn}\n{json.dumps(second)}\n",
        f"{json.dumps(second)}\n{torn}",
    ):
        assert rows_of(awk_reader(awk), content.encode()) == rows_of(python_reader(), content.encode())


READERS = [*(awk_reader(name) for name in AWKS), python_reader()]


@pytest.fixture(params=READERS, ids=[reader[0] for reader in READERS])
def reader(request: pytest.FixtureRequest) -> list[str]:
    return request.param


@pytest.mark.parametrize(("version", "milliseconds"), [("040", "-"), ("070", "930.1955699920654")])
def test_real_rollouts(reader: list[str], version: str, milliseconds: str):
    rows = [row.split("\t") for row in rows_of(reader, (DATA / f"rollouts_{version}.jsonl").read_bytes())]
    first = dict(zip(COLUMNS, rows[0][2:], strict=True))
    assert {row[0] for row in rows} == {"ok"}
    assert (first["agent"], first["reward"]) == ("demo_mcqa_simple_agent", "0.0")
    assert (first["input"], first["output"], first["reasoning"]) == ("10", "5", "0")
    assert first["milliseconds"] == milliseconds
    assert (first["task"], first["rollout"]) == {"040": ("2", "1"), "070": ("0", "1")}[version]


def test_real_failures(reader: list[str]):
    reader = [
        word.replace("rollouts", "failures") if word in ("rollouts", "source=rollouts") else word for word in reader
    ]
    rows = [row.split("\t") for row in rows_of(reader, (DATA / "rollouts_failures_070.jsonl").read_bytes())]
    assert [[*row[:5], row[11]] for row in rows] == [
        ["ok", "failures", "demo_mcqa_simple_agent", "1", repeat, "agent_run_error"] for repeat in "01"
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("1e-3", "1e-3"),
        ("1E+2", "1E+2"),
        ("-0.5", "-0.5"),
        ("NaN", "-"),
        ("-Infinity", "-"),
        ("1e999", "-"),
        ("null", "-"),
        ("true", "-"),
        ('"0.5"', "-"),
        ("[0.5]", "-"),
        ('{"reward": 0.5}', "-"),
    ],
)
def test_what_a_reward_may_be(reader: list[str], text: str, told: str):
    assert one_row(reader, f'{{"reward": {text}, "_ng_task_index": 3, "_ng_rollout_index": 0}}')["reward"] == told


def test_keys_count_only_where_they_belong(reader: list[str]):
    inner = {"reward": 9, "_ng_task_index": 9, "usage": {"input_tokens": 9}}
    line = rollout(4, 2, 0.25, prompt='"reward": 9, \\" {"_ng_task_index": 9}', metadata=inner, extra=[inner, [inner]])
    found = one_row(reader, json.dumps(line))
    assert (found["task"], found["rollout"], found["reward"], found["input"]) == ("4", "2", "0.25", "7")
    assert one_row(reader, json.dumps({"a": inner}))["reward"] == "-"
    assert one_row(reader, '{"a": [{"reward": 1}], "b": ["reward", 2], "c": {"reward": 3}}')["reward"] == "-"


def test_the_last_of_two_equal_keys_counts(reader: list[str]):
    assert one_row(reader, '{"reward": 1, "reward": 0.5}')["reward"] == "0.5"
    assert one_row(reader, '{"reward": 1, "reward": {}}')["reward"] == "-"


def test_spaces_and_order_do_not_matter(reader: list[str]):
    line = ' { "reward" :0.5,"agent_ref": {"name":"x"} ,"_ng_task_index":\t7 , "_ng_rollout_index": 1 } \r'
    found = one_row(reader, line)
    assert (found["agent"], found["task"], found["rollout"], found["reward"]) == ("x", "7", "1", "0.5")


@pytest.mark.parametrize(
    "bad", ['{"a": 1', '{"a": "x', "[1]", "7", '{"a": 1}{"b": 2}', '{"a": [1}', "nonsense", '"text"']
)
def test_lines_that_are_no_object_are_bad_and_hurt_no_other(reader: list[str], bad: str):
    good = json.dumps(rollout())
    rows = rows_of(reader, f"{good}\n{bad}\n\n{good}\n".encode())
    assert [row.split("\t")[0] for row in rows] == ["ok", "bad", "ok"]


def test_half_a_last_line_does_not_count(reader: list[str]):
    good = json.dumps(rollout())
    for half in (good, good[:-1], good[:40], "{"):
        assert len(rows_of(reader, f"{good}\n{half}".encode())) == 1


def test_prompts_are_told_apart(reader: list[str]):
    def prompt(text: str, **more: Any) -> str:
        return one_row(reader, json.dumps(rollout(prompt=text, **more)))["prompt"]

    assert prompt("Why?") == prompt("Why?", reward=0.0, task_source="x")
    others = ("Why?", "Why!", "Why? ", 'Why"?', "", "Why?" * 400, "Why?" * 401, "What?" * 320)
    assert len({prompt(text) for text in others}) == len(others)
    assert one_row(reader, '{"reward": 1}')["prompt"] == "0"


def test_a_line_that_python_will_not_hold_is_left_to_awk(tmp_path: Path):
    import subprocess

    long = json.dumps(rollout(prompt="x" * (17 << 20)))
    done = subprocess.run(python_reader(), input=long.encode() + b"\n", capture_output=True)
    assert (done.returncode, done.stdout) == (3, b"")
