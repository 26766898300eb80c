"""Rollouts counted by a real bash from where the last count stopped."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from airflow_gym_provider.slurm.progress import Progress, beside, files_late, parse_progress, progress_body
from airflow_gym_provider.slurm.remote import Frame, Frames, RemoteScript


def count(progress: dict[str, Progress]) -> dict[str, Progress]:
    script = RemoteScript.build(progress_body(progress), needs=())
    done = subprocess.run(
        ["bash", "-s"], input=script.text, capture_output=True, text=True, env={"PATH": os.environ["PATH"]}
    )
    assert done.stderr == ""
    return parse_progress(progress, script.frames(done.stdout))


@pytest.fixture(params=["plain", "my 'q' $HOME \"x\" `id` runs", "-n", "zwei\nZeilen é"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / request.param
    path.mkdir()
    return path


def test_only_ended_lines_count_and_only_new_bytes_are_read(folder: Path) -> None:
    rollouts, inputs = folder / "rollouts.jsonl", folder / "rollouts_materialized_inputs.jsonl"
    progress = count({"7": Progress(str(rollouts))})
    assert (progress["7"].done, progress["7"].expected) == (0, 0)
    inputs.write_text("{}\n" * 5)
    rollouts.write_text('{"a": 1}\n{"a": 2}\n{"a"')
    progress = count(progress)
    assert (progress["7"].done, progress["7"].offset, progress["7"].expected) == (2, rollouts.stat().st_size, 5)
    with rollouts.open("a") as file:
        file.write(": 3}\n{}\n")
    progress = count(progress)
    assert (progress["7"].done, progress["7"].expected) == (4, 5)
    assert count(progress) == progress


def test_a_file_that_was_written_anew_is_counted_anew(folder: Path) -> None:
    rollouts = folder / "rollouts.jsonl"
    rollouts.write_text("{}\n" * 9)
    progress = count({"7": Progress(str(rollouts))})
    rollouts.write_text("{}\n")
    assert count(progress)["7"].done == 1
    rollouts.unlink()
    assert count(progress)["7"].done == 0


def test_jobs_are_told_apart_and_a_folder_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("{}\n")
    (tmp_path / "b.jsonl").mkdir()
    progress = count({"1": Progress(str(tmp_path / "b.jsonl")), "2;c": Progress(str(tmp_path / "a.jsonl"))})
    assert (progress["1"].done, progress["2;c"].done) == (0, 1)


@pytest.mark.parametrize("text", ["", "5 0 1\n", "5 0 1\nbanner\n", "x\ny\n"])
def test_half_an_answer_changes_nothing(text: str) -> None:
    progress = {"7": Progress("/r.jsonl", 3, 30, 9, 90)}
    assert parse_progress(progress, Frames([Frame("progress", ("0",), text)])) == progress
    assert parse_progress(progress, Frames()) == progress


def test_no_jobs_no_script() -> None:
    assert progress_body({}) == ""


@pytest.mark.parametrize(
    ("path", "other"),
    [
        ("/a/rollouts.jsonl", "/a/rollouts_x"),
        ("/a/r.v2.json", "/a/r.v2_x"),
        ("/a/r", "/a/r_x"),
        ("", "_x"),
        ("/", "/_x"),
    ],
)
def test_files_beside_the_rollouts_are_named_as_gym_names_them(path: str, other: str) -> None:
    assert beside(path, "_x") == other


def test_files_that_hang_are_said_to_do_so_with_the_time_they_were_given() -> None:
    assert files_late(Frames([Frame("late", ("other", "1"), "")])) == ""
    assert "within 60 s: a file system hangs" in files_late(Frames([Frame("late", ("files", "60"), "")]))
