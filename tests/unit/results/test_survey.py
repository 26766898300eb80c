"""The survey, run by a real bash over real files."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_gym_provider.results import Survey, judge, parse_survey, survey, survey_body
from airflow_gym_provider.slurm import Frames, RemoteScript
from airflow_gym_provider.slurm.remote import Frame


@dataclass(frozen=True)
class Spec:
    rollouts_path: str
    require_complete: bool = True
    judged_by: Literal["rollouts", "exit_status"] = "rollouts"


AGGREGATE = json.dumps([{"agent_ref": {"name": "solver"}, "key_metrics": {"mean/reward": 0.5}}])


def answer(*specs: Spec, user: str | None = None) -> Frames:
    script = RemoteScript.build("\n".join(survey_body(spec, str(at)) for at, spec in enumerate(specs)), needs=())
    done = subprocess.run(
        ["bash", "-s"], input=script.text, capture_output=True, text=True, user=user, env={"PATH": os.environ["PATH"]}
    )
    assert done.stderr == ""
    return script.frames(done.stdout)


def look(spec: Spec) -> Survey:
    return parse_survey(spec, answer(spec))


@pytest.fixture(params=["artifacts", "my 'q' $HOME \"x\" `id`; runs", "zwei\nZeilen é", "trailing "])
def spec(request: pytest.FixtureRequest, tmp_path: Path) -> Spec:
    folder = tmp_path / request.param
    folder.mkdir()
    return Spec(f"{folder}/rollouts.jsonl")


def write(
    spec: Spec, done: str = "", expected: int | None = None, failed: int | None = None, metrics: str | None = None
) -> None:
    path = Path(spec.rollouts_path)
    path.write_text(done)
    for ending, text in (
        ("_materialized_inputs.jsonl", None if expected is None else "{}\n" * expected),
        ("_failures.jsonl", None if failed is None else "{}\n" * failed),
        ("_aggregate_metrics.json", metrics),
    ):
        if text is not None:
            path.with_name(f"rollouts{ending}").write_text(text)


def test_nothing_is_there_yet(spec: Spec) -> None:
    found = look(spec)
    assert found.answered
    assert (found.done, found.expected, found.failed_lines, found.metrics_present) == (0, None, 0, False)
    assert {found.rollouts.status, found.metrics_file.status} == {"missing"}
    assert look(Spec(f"{spec.rollouts_path}/no/such/rollouts.jsonl")).rollouts.status == "missing"


def test_everything_is_counted_and_the_last_half_line_is_not(spec: Spec) -> None:
    write(spec, '{"a": 1}\n{"a": 2}\n{"a"', 4, 1, AGGREGATE)
    found = look(spec)
    assert (found.done, found.expected, found.failed_lines) == (2, 4, 1)
    assert (found.metrics, found.agents, found.metrics_problem) == ({"mean/reward": 0.5}, ("solver",), "")
    assert found.rollouts.size == 22
    assert not found.metrics_stale


def test_empty_files_are_empty_not_missing(spec: Spec) -> None:
    write(spec, "", 0, 0, "")
    found = look(spec)
    assert (found.done, found.expected, found.metrics_present, found.metrics) == (0, 0, True, {})
    assert found.metrics_problem.endswith("_aggregate_metrics.json is empty")


@pytest.mark.parametrize(("age", "stale"), [(0, False), (2, False), (3, True), (-100, False)])
def test_metrics_older_than_the_rollouts_are_stale(tmp_path: Path, age: int, stale: bool) -> None:
    spec = Spec(f"{tmp_path}/rollouts.jsonl")
    write(spec, "{}\n", 1, 0, AGGREGATE)
    os.utime(tmp_path / "rollouts_aggregate_metrics.json", (1e9 - age, 1e9 - age))
    os.utime(tmp_path / "rollouts.jsonl", (1e9, 1e9))
    assert look(spec).metrics_stale is stale


def test_a_folder_in_the_place_of_a_file_is_unreadable(tmp_path: Path) -> None:
    (tmp_path / "rollouts.jsonl").mkdir()
    spec = Spec(f"{tmp_path}/rollouts.jsonl")
    found = look(spec)
    assert (found.rollouts.status, found.rollouts.why) == ("unreadable", "it is no regular file")
    assert not found.answered
    told = judge(found, spec).reason
    assert told == f"the results could not be read: {spec.rollouts_path} is unreadable (it is no regular file)"


def test_files_of_somebody_else_are_unreadable_not_missing(tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir()
    folder.chmod(0)
    spec = Spec(f"{folder}/rollouts.jsonl")
    frames = answer(spec, user="nobody" if os.getuid() == 0 else None)
    folder.chmod(0o700)
    rollouts = parse_survey(spec, frames).rollouts
    assert (rollouts.status, rollouts.why) == ("unreadable", "Permission denied")


def test_a_large_metrics_file_is_not_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "METRICS_CAP", 10)
    spec = Spec(f"{tmp_path}/rollouts.jsonl")
    write(spec, "{}\n", 1, 0, AGGREGATE)
    frames = answer(spec)
    assert not frames.named("metrics")
    assert "more than 10 are not fetched" in parse_survey(spec, frames).metrics_problem


def test_nan_is_told_with_its_file(tmp_path: Path) -> None:
    spec = Spec(f"{tmp_path}/rollouts.jsonl")
    write(spec, "{}\n", 1, 0, AGGREGATE.replace("0.5", "NaN"))
    found = look(spec)
    assert found.metrics == {}
    assert found.notes == (f"mean/reward is NaN, not a number, in {tmp_path}/rollouts_aggregate_metrics.json",)


def test_several_benchmarks_in_one_answer(tmp_path: Path) -> None:
    specs = [Spec(f"{tmp_path}/{name}.jsonl") for name in "ab"]
    for at, spec in enumerate(specs):
        Path(spec.rollouts_path).write_text("{}\n" * (at + 1))
    frames = answer(*specs)
    assert [parse_survey(spec, frames, str(at)).done for at, spec in enumerate(specs)] == [1, 2]
    assert not parse_survey(specs[0], frames, "9").answered


def test_a_tag_is_one_plain_word() -> None:
    with pytest.raises(ValueError, match="plain word"):
        survey_body(Spec("/r.jsonl"), "a b")


@given(st.integers(0, 900))
def test_an_answer_cut_anywhere_never_looks_like_fewer_or_no_results(end: int) -> None:
    spec = Spec("/w/rollouts.jsonl")
    script = RemoteScript.build("")
    mark = f"\n@@{script.nonce} "
    facts = "rollouts ok 900 5 97\ninputs ok 900 5 100\nfailures missing 0 0 0\nmetrics ok 90 5 1\n"
    told = f"{mark}survey 0\n{facts}{mark}metrics 0\nW10=\n{mark}metrics.end 0 0\n{mark}end 0\n"
    found = parse_survey(spec, script.frames(told[:end]))
    assert found.rollouts.status == "unknown" or found.done == 97
    assert found.inputs.status == "unknown" or found.expected == 100
    assert found.metrics == {}
    assert not found.metrics_present or found.metrics_problem


@pytest.mark.parametrize(("text", "status"), [("ü", "0"), ("W10", "0"), ("banner!", "0"), ("W10=", "1")])
def test_metrics_that_came_damaged_are_told(text: str, status: str) -> None:
    frames = Frames(
        [
            Frame("survey", ("0",), "metrics ok 9 5 1\nbanner\n"),
            Frame("metrics", ("0",), text),
            Frame("metrics.end", ("0", status), ""),
        ]
    )
    assert "could not be read" in parse_survey(Spec("/w/rollouts.jsonl"), frames).metrics_problem


@given(st.lists(st.tuples(st.sampled_from(["survey", "metrics", "metrics.end"]), st.text())))
def test_any_frames_can_be_read(pieces: list[tuple[str, str]]) -> None:
    parse_survey(Spec("/w/rollouts.jsonl"), Frames([Frame(name, ("0", "0"), text) for name, text in pieces]))
