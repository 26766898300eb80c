"""What is said of a directory that cannot be used: the place, what is wrong there, and the cure."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from airflow_gym_provider.chain.hindrances import cure, told


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        ("No space left on device", "make room"),
        ("Disk quota exceeded", "The account's quota there is used up, in bytes or in files"),
        ("Read-only file system", "mounted read-only"),
        ("Permission denied", "give it the right to"),
        ("Operation not permitted", "give it the right to"),
        ("Stale file handle", "have it mounted anew"),
        ("Input/output error", "have it mounted anew"),
        ("Transport endpoint is not connected", "have it mounted anew"),
        ("File exists", "move it away"),
        ("Too many levels of symbolic links", "move it away"),
        ("File name too long", "shorter job.output_path"),
        ("write error", "may be full"),
        ("write error: No space left on device", "is full"),
        ("Resource temporarily unavailable", "ulimit -u"),
    ],
)
def test_each_trouble_has_its_cure_behind_place_and_words(trouble: str, words: str):
    said = told(f"/scratch/me/job.sh cannot be written: {trouble}\n")
    assert said.startswith(f"/scratch/me/job.sh cannot be written: {trouble}. ")
    assert words in said.partition(". ")[2]
    assert cure(trouble) in said


def test_noise_of_the_shell_and_names_of_ours_are_left_out():
    said = told(
        "main: line 23: /r/x/.gym_tmp.8d3683786daaaf02.job.sh: Odd\n"
        "bash: line 7: /r/x/.gym_tmp.8d3683786daaaf02.job.sh: Odd\n"
        "main: line 254: printf: write error: Broken pipe\n"
    )
    assert said == "/r/x/job.sh: Odd"


def test_silence_is_said_to_be_that_and_a_flood_is_cut():
    assert told("\n") == "nothing says why"
    assert len(told("x" * 5000)) == 1000


def test_a_path_that_cannot_be_looked_at_is_not_taken_for_an_absent_one(tmp_path: Path):
    scripts = Path(told.__code__.co_filename).parent / "scripts" / "common.sh"
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed" / "chain").write_text("101\n")
    (tmp_path / "stat").write_text("#!/bin/sh\necho \"stat: cannot statx '$3': Stale file handle\" >&2\nexit 1\n")
    (tmp_path / "stat").chmod(0o755)
    body = f"""
. {scripts}
for path in {tmp_path}/none {tmp_path}/stat/none {tmp_path}/closed; do gym_absent $path; echo $?; done
gym_read {tmp_path}/none; echo $?
PATH={tmp_path}:$PATH
gym_absent {tmp_path}/none; echo $?
gym_read {tmp_path}/none 2>/dev/null; echo $?
"""
    done = subprocess.run(["bash", "-c", body], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "0", "1", "0", "1", "1"]
