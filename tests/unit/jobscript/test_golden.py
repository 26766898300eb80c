from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_gym_provider.config import load_submit_config
from airflow_gym_provider.jobscript import render_job_script

from . import golden

SHELLCHECK = shutil.which("shellcheck") or str(Path(sys.executable).with_name("shellcheck"))


def _here_documents(script: str) -> Iterator[tuple[str, str]]:
    """(delimiter, body) of every quoted here-document that is a step's shell text."""
    for found in re.finditer(r"bash -s[^\n]*<<'(END_\w+)'[^\n]*\n(.*?)\n\1\n", script, re.DOTALL):
        yield found[1], found[2]


@pytest.mark.parametrize("name", golden.names())
def test_the_script_is_the_one_that_was_reviewed(name: str) -> None:
    assert golden.render(name) == (golden.FOLDER / f"{name}.sh").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", golden.names())
def test_shellcheck_has_nothing_to_say(name: str, tmp_path: Path) -> None:
    script = golden.render(name)
    bodies = dict(_here_documents(script))
    assert {"END_DRIVER"} <= bodies.keys()
    paths = [tmp_path / "job.sh", *(tmp_path / f"{end}.sh" for end in bodies)]
    paths[0].write_text(script)
    for end, body in bodies.items():
        # As in the job itself; the other one is the pre_command's own, whose author chose to write it so.
        ignored = "# shellcheck disable=SC2016,SC2155"
        (tmp_path / f"{end}.sh").write_text(f"#!/bin/bash\n{ignored}\n{body}\n")
    done = subprocess.run([SHELLCHECK, "--shell=bash", *paths], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("name", golden.names())
def test_bash_can_read_it_and_every_step(name: str) -> None:
    script = golden.render(name)
    for text in (script, *(body for _, body in _here_documents(script))):
        done = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


def test_twenty_scripts_take_less_than_a_second() -> None:
    config = load_submit_config(golden.FOLDER / "gateway.yaml", environ=golden.ENVIRON)
    began = time.process_time()
    for number in range(20):
        render_job_script(config, "gpqa", f"/scratch/run-{number}/gpqa")
    assert time.process_time() - began < 1


def test_the_token_is_in_no_script() -> None:
    assert not any(golden.ENVIRON["OTEL_TOKEN"] in golden.render(name) for name in golden.names())


def test_the_room_needs_neither_airflow_nor_a_transport() -> None:
    heavy = "{'airflow', 'paramiko', 'asyncssh'}"
    code = f"import sys, airflow_gym_provider.jobscript; print(*({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
