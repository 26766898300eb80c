"""The summary of rollouts, made by a real bash where they lie."""

from __future__ import annotations

import json
import math
import os
import subprocess
import tempfile
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_gym_provider.results import Summary, parse_summary, summary, summary_body, table_path
from airflow_gym_provider.results.summary import Spread
from airflow_gym_provider.slurm.remote import Frames, RemoteScript

from .rollout_files import (
    awk_reader,
    expected_numbers,
    failure,
    path_without,
    python_reader,
    reward_numbers,
    rollout,
    summarise,
    write,
)

DATA = Path(__file__).parents[2] / "data" / "results"
REWARDS = [1.0, 0.0, 0.1, 0.35, 0.999, -0.5, 1.5, 0.7]


@pytest.fixture
def rollouts(tmp_path: Path) -> Path:
    folder = tmp_path / "my 'q' $HOME; a=b"
    folder.mkdir()
    return folder / "rollouts.jsonl"


def test_rewards_bins_tokens_and_seconds(rollouts: Path):
    write(rollouts, [rollout(task, repeat, reward) for task in range(3) for repeat, reward in enumerate(REWARDS)])
    found = summarise(rollouts)
    assert (found.rollouts, found.tasks, found.without_reward, found.problem) == (24, 3, 0, "")
    assert reward_numbers(found) == pytest.approx(expected_numbers(REWARDS * 3))
    assert (found.bins, found.below, found.above) == ((3, 3, 0, 3, 0, 0, 0, 3, 0, 6), 3, 3)
    assert found.tokens == {"input": 24 * 7, "output": 24 * 3, "reasoning": 24}
    assert found.values()["seconds"]["mean"] == 0.25
    assert found.rewards is not None
    assert found.rewards["2"].reward == pytest.approx(sum(REWARDS) / 8)
    assert found.rewards["2"].n == 8


def test_a_rollout_that_was_written_twice_counts_once_as_written_last(rollouts: Path):
    write(rollouts, [rollout(0, 0, 0.0), rollout(0, 1, 0.5), rollout(0, 0, 1.0)])
    found = summarise(rollouts)
    assert (found.rollouts, found.duplicates) == (2, 1)
    assert found.rewards is not None
    assert (found.rewards["0"].reward, found.rewards["0"].n) == (0.75, 2)


def test_missing_rewards_nan_and_unreadable_lines_are_counted(rollouts: Path):
    none = rollout(1, 0)
    del none["reward"]
    glued = json.dumps(rollout(2, 0))[:50] + json.dumps(rollout(2, 1)) + "\n"
    write(rollouts, [rollout(0, 0, 0.5), none, rollout(1, 1, float("nan")), glued, json.dumps(rollout(9, 9))])
    found = summarise(rollouts)
    assert (found.rollouts, found.tasks, found.without_reward, found.unreadable) == (3, 2, 2, 1)
    assert found.rewards is not None
    assert (found.rewards["1"].reward, found.rewards["1"].n) == (None, 0)
    assert found.reward is not None
    assert (found.reward.n, found.reward.mean, found.reward.std) == (1, 0.5, 0.0)


def test_failures_by_class_and_those_that_were_made_good(rollouts: Path):
    write(rollouts, [rollout(0, 0), rollout(0, 1, failure_kind="timeout")])
    lines = [failure(0, 0), failure(0, 0), failure(1, 0), failure(1, 1, "judge"), failure(1, 1, "judge")]
    write(rollouts.with_name("rollouts_failures.jsonl"), lines)
    found = summarise(rollouts)
    assert (found.attempts_failed, found.unresolved) == (5, 2)
    assert found.classes == {"agent_run_error": 3, "judge": 2, "timeout": 1}
    assert found.values()["failures"] == {"attempts": 5, "classes": {"agent_run_error": 3, "judge": 2, "timeout": 1}}


def test_agents_have_tasks_of_their_own(rollouts: Path):
    write(rollouts, [rollout(0, 0, 1.0), rollout(0, 0, 0.0, agent_ref={"name": "other"})])
    found = summarise(rollouts)
    assert found.rewards is not None
    assert {name: task.reward for name, task in found.rewards.items()} == {"solver/0": 1.0, "other/0": 0.0}
    assert found.rewards.of_agent("other")["0"].reward == 0.0


@pytest.mark.parametrize("content", ["", '{"reward": 1'])
def test_nothing_ended_yet(rollouts: Path, content: str):
    rollouts.write_text(content)
    found = summarise(rollouts)
    assert (found.rollouts, found.reward, found.rewards, found.problem) == (0, None, None, "")
    assert found.values() == {"rollouts": 0, "tasks": 0}


def test_no_file_is_a_problem_and_not_zero(rollouts: Path):
    assert summarise(rollouts).problem.endswith("rollouts.jsonl does not exist")
    assert not list(rollouts.parent.iterdir())


@pytest.mark.parametrize("version", ["040", "070"])
def test_real_rollouts(tmp_path: Path, version: str):
    path = tmp_path / "rollouts.jsonl"
    path.write_bytes((DATA / f"rollouts_{version}.jsonl").read_bytes())
    found = summarise(path)
    assert (found.rollouts, found.unreadable, found.without_reward) == (2, 0, 0)
    assert found.tokens == {"input": 20, "output": 10, "reasoning": 0}
    assert ("seconds" in found.values()) is (version == "070")


def test_the_table_is_used_again_until_the_files_change(rollouts: Path):
    write(rollouts, [rollout(0, 0, 0.0)])
    assert summarise(rollouts).rollouts == 1
    table = Path(table_path(str(rollouts)))
    assert table.stat().st_mode & 0o777 == 0o644
    table.write_text(table.read_text().replace("s\trollouts\t1", "s\trollouts\t17"))
    assert summarise(rollouts).rollouts == 17
    write(rollouts, [rollout(0, 0, 0.0), rollout(0, 1, 0.0)])
    assert summarise(rollouts).rollouts == 2
    write(rollouts.with_name("rollouts_failures.jsonl"), [failure(3, 0)])
    assert summarise(rollouts).unresolved == 1
    table.write_text(table.read_text().removesuffix("end\n"))  # cut off by a full disk, say
    assert summarise(rollouts).rollouts == 2
    assert [path.name for path in rollouts.parent.iterdir() if "rewards" in path.name] == [table.name]


def test_a_folder_of_somebody_else_is_read_all_the_same():
    with tempfile.TemporaryDirectory(dir="/tmp") as name:  # pytest's own folders are closed to others
        folder, scratch = Path(name), Path(name, "scratch")
        scratch.mkdir()
        scratch.chmod(0o777)
        path = write(folder / "rollouts.jsonl", [rollout(0, 0, 0.5)])
        folder.chmod(0o555)
        found = summarise(path, user="nobody" if os.getuid() == 0 else None, TMPDIR=str(scratch))
        folder.chmod(0o755)
        assert (found.rollouts, found.problem) == (1, "")
        assert sorted(item.name for item in folder.iterdir()) == ["rollouts.jsonl", "scratch"]
        assert not list(scratch.iterdir())


def test_a_login_node_without_python_comes_to_the_same(tmp_path: Path):
    rows = [rollout(task, repeat, task / 7, prompt=f"{task}?") for task in range(7) for repeat in range(2)]
    path = write(tmp_path / "rollouts.jsonl", rows)
    with_python = summarise(path)
    Path(table_path(str(path))).unlink()
    assert summarise(path, path=path_without(tmp_path / "bin", "python3")) == with_python


def test_a_python_that_cannot_do_it_is_followed_by_awk(tmp_path: Path):
    folder = tmp_path / "bin"
    path = path_without(folder, "python3")
    (folder / "python3").write_text("#!/bin/sh\n[ $# -gt 4 ] || exit 0\necho broken\nexit 3\n")
    (folder / "python3").chmod(0o755)
    found = summarise(write(tmp_path / "rollouts.jsonl", [rollout()]), path=path)
    assert (found.rollouts, found.unreadable) == (1, 0)


def test_no_room_is_told(tmp_path: Path):
    folder = tmp_path / "bin"
    path = path_without(folder, "sort")
    (folder / "sort").write_text("#!/bin/sh\nexit 2\n")
    (folder / "sort").chmod(0o755)
    assert "could not be summarised" in summarise(write(tmp_path / "rollouts.jsonl", [rollout()]), path=path).problem


def test_more_tasks_than_are_fetched_leave_the_summary(tmp_path: Path):
    found = summarise(write(tmp_path / "rollouts.jsonl", [rollout(task) for task in range(100)]), table_cap=1000)
    assert (found.tasks, found.rewards, found.problem) == (100, None, "")


def test_large_files_go_one_at_a_time_and_small_ones_do_not_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write(tmp_path / "rollouts.jsonl", [rollout()])
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    summary._functions.cache_clear()
    # as a large one would, until it is done
    holder = subprocess.Popen(
        ["flock", str(scratch), "sh", "-c", "echo held; read line"], stdin=-1, stdout=-1, text=True
    )
    assert holder.stdout is not None
    assert holder.stdin is not None
    assert holder.stdout.readline() == "held\n"
    assert summarise(tmp_path / "rollouts.jsonl", TMPDIR=str(scratch)).rollouts == 1
    Path(table_path(str(tmp_path / "rollouts.jsonl"))).unlink()
    monkeypatch.setattr(summary, "LARGE", 1)
    summary._functions.cache_clear()
    found: list[int] = []
    waiting = threading.Thread(
        target=lambda: found.append(summarise(tmp_path / "rollouts.jsonl", TMPDIR=str(scratch)).rollouts)
    )
    waiting.start()
    waiting.join(2)
    assert found == []
    holder.communicate("\n")
    waiting.join(60)
    assert found == [1]
    summary._functions.cache_clear()


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(-2, 2), min_size=1, max_size=60))
def test_numbers_are_those_of_numpy(tmp_path_factory: pytest.TempPathFactory, rewards: list[float]):
    path = write(tmp_path_factory.mktemp("r") / "rollouts.jsonl", [rollout(0, at, r) for at, r in enumerate(rewards)])
    found = summarise(path)
    assert reward_numbers(found) == pytest.approx(expected_numbers(rewards), rel=1e-12, abs=1e-12)
    assert sum(found.bins) + found.below + found.above == len(rewards)
    assert found.below == sum(reward < 0 for reward in rewards)


def test_values_are_below_a_kilobyte():
    spread = Spread(10**9, *[-0.123456789] * 4, tuple([-1.23456789e-10] * 5))
    classes = {f"{at}" + "x" * 300: 10**6 for at in range(100)}
    largest = Summary(
        *[10**9] * 5, reward=spread, bins=(10**8,) * 10, below=10**8, above=10**8, milliseconds=spread, classes=classes,
        tokens={"input": 10**13, "output": 10**13, "reasoning": 10**13}, attempts_failed=10**8, unresolved=10**8,
    )  # fmt: skip
    assert len(json.dumps(largest.values())) < 1024
    assert len(json.dumps(Summary(problem="x" * 5000).values())) < 1024


@given(st.integers(0, 400))
def test_an_answer_cut_anywhere_is_no_summary(end: int):
    script = RemoteScript.build("")
    text = f"\n@@{script.nonce} summary 0 ok\nv\t1\t2\t3\ns\trollouts\t7\ns\twith_reward\t7\nc\tx\t1\nend\n"
    found = parse_summary(script.frames(text[:end]), "/r.jsonl")
    assert found.problem or found.rollouts == 7


@given(st.lists(st.tuples(st.sampled_from(["summary", "results"]), st.text())))
def test_any_answer_can_be_read(pieces: list[tuple[str, str]]):
    from airflow_gym_provider.slurm.remote import Frame

    frames = Frames([Frame(name, ("0", "ok", "5"), text + "\nend") for name, text in pieces])
    parse_summary(frames, "/r.jsonl", results_path="/results.json")


@pytest.mark.parametrize(
    "line", ["s\trollouts\tmany", "s\trollouts\tinf", "s\ttasks\tnan", "c\tx\t-", "t\ta\t1\t?\t-\t7"]
)
def test_a_table_that_somebody_has_changed_is_a_problem(rollouts: Path, line: str):
    write(rollouts, [rollout()])
    summarise(rollouts)
    table = Path(table_path(str(rollouts)))
    table.write_text(table.read_text().replace("\nend\n", f"\n{line}\nend\n"))
    assert summarise(rollouts).problem == f"{table} holds something else than numbers: remove it"


def test_tags_and_paths_that_cannot_be_passed_on_are_refused():
    with pytest.raises(ValueError, match="plain word"):
        summary_body("/r.jsonl", "a b")
    with pytest.raises(ValueError, match="NUL"):
        summary_body("/r\0.jsonl")


def read_results(path: Path, since: float | None = None) -> Summary:
    script = RemoteScript.build(summary_body("/no/rollouts.jsonl", results_path=str(path)), needs=())
    done = subprocess.run(["bash", "-s"], input=script.text, capture_output=True, text=True, check=True)
    return parse_summary(script.frames(done.stdout), "/no/rollouts.jsonl", results_path=str(path), since=since)


@pytest.mark.parametrize(
    ("content", "metrics"),
    [
        (
            {"accuracy": 0.5, "n": 3, "by": {"lang": {"de": 1, "en": 2.5}}},
            {"accuracy": 0.5, "n": 3, "by.lang.de": 1, "by.lang.en": 2.5},
        ),
        ({"a": True, "b": "1", "c": None, "d": [1], "e": math.nan, "f": math.inf, "g": 10**400, "h": 0}, {"h": 0}),
        ({}, {}),
    ],
)
def test_a_harness_of_ones_own(tmp_path: Path, content: Any, metrics: dict[str, float]):
    path = tmp_path / "results 'x'.json"
    path.write_text(json.dumps(content))
    assert (read_results(path).metrics, read_results(path).metrics_problem) == (metrics, "")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "not valid JSON"),
        ("[1]", "is not a JSON object"),
        ("{", "not valid JSON"),
        ("x" * (1 << 21), "at most 1048576"),
    ],
)
def test_a_harness_that_wrote_something_else(tmp_path: Path, content: str, told: str):
    path = tmp_path / "results.json"
    path.write_text(content)
    found = read_results(path)
    assert found.metrics == {}
    assert told in found.metrics_problem
    assert str(path) in found.metrics_problem
    path.unlink()
    assert read_results(path).metrics_problem == ""


def test_numbers_from_before_the_chain_are_not_its_own(tmp_path: Path):
    path = tmp_path / "results.json"
    path.write_text('{"accuracy": 0.99}')
    os.utime(path, (86_400, 86_400))
    for since in (None, 86_400.0, 86_400.0 + 299):  # clocks differ
        assert read_results(path, since).metrics == {"accuracy": 0.99}
    found = read_results(path, 86_400.0 + 301)
    assert (found.metrics, found.metrics_problem) == (
        {},
        f"{path} is from before this chain's first job, left by another run",
    )


def test_names_nested_without_end_are_no_crash():
    deep = '{"a":' * 5000 + "1" + "}" * 5000
    from airflow_gym_provider.results import harness_metrics

    assert harness_metrics(b'{"x": 1, "y": ' + b'{"a":' * 50 + b"1" + b"}" * 50 + b"}") == {"x": 1}
    with pytest.raises(ValueError, match="not valid JSON"):
        harness_metrics(deep.encode() * 20)


def test_names_of_a_harness_that_fold_together_stand_for_nothing(tmp_path: Path):
    path = tmp_path / "results.json"
    path.write_text('{"acc": {"norm": 0.1}, "acc.norm": 0.9, "x": 1, "y": 2, "y": 3, "z": {"a": 1}, "z": {"b": 2}}')
    found = read_results(path)
    assert found.metrics == {"x": 1.0}
    for name in ("acc.norm", "y", "z"):
        assert f"{name} is there twice" in found.metrics_problem
    assert found.metrics_problem.startswith(f"{path}: ")


@pytest.mark.parametrize("nested", [1, 3])
def test_a_long_name_is_not_made_anew_for_each_number_below_it(nested: int):
    """60 kB were 90 MB of names."""
    from airflow_gym_provider.results.harness import harness_results

    numbers = {str(at): at for at in range(3000)}
    content: dict[str, object] = {"x": 1, **numbers}
    for _ in range(nested):
        content = {"n" * 30_000: content, "y": 2}
    tracemalloc.start()
    metrics, notes = harness_results(json.dumps(content).encode())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert metrics == {"y": 2.0}
    assert notes == [f"{'n' * 79}… is a name of 30001 signs, which is left out,"]
    assert peak < 5_000_000


@pytest.mark.parametrize("reader", ["python", "awk"])
def test_a_large_file_needs_little_memory(tmp_path: Path, reader: str):
    """30 MB here; what is kept is one line, whatever the size."""
    command = python_reader() if reader == "python" else awk_reader("awk")
    line = json.dumps(rollout(prompt="What? " * 3000, note=['say "so"'] * 500)).encode() + b"\n"
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert process.stdin is not None

    def feed() -> None:
        for _ in range(30_000_000 // len(line)):
            process.stdin.write(line)
        process.stdin.close()

    thread = threading.Thread(target=feed)
    thread.start()
    peak = 0
    while process.poll() is None:
        status = Path(f"/proc/{process.pid}/status").read_text()
        peak = max([peak, *(int(row.split()[1]) for row in status.splitlines() if row.startswith("VmHWM"))])
        threading.Event().wait(0.02)
    thread.join()
    assert process.returncode == 0
    assert 0 < peak < 40_000  # kB
