"""The static scripts are sound bash, and importing the room costs nothing."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import airflow_gym_provider.chain as room

SCRIPTS = sorted(Path(room.__file__).with_name("scripts").glob("*.sh"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_shellcheck_finds_nothing(script):
    beside_python = Path(sys.executable).with_name("shellcheck")
    tool = str(beside_python) if beside_python.exists() else shutil.which("shellcheck")
    assert tool, "the dependency group `test` brings shellcheck"
    done = subprocess.run([tool, "--severity=style", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_every_name_is_there():
    for name in room.__all__:
        assert getattr(room, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        room.nothing  # noqa: B018


def test_importing_the_room_imports_none_of_it():
    code = (
        "import sys, airflow_gym_provider.chain; print(sum(m.startswith('airflow_gym_provider.') for m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1"
