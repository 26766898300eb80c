"""The room as a whole: what it gives to others, and what it must not import."""

from __future__ import annotations

import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

from airflow_gym_provider import slurm
from airflow_gym_provider.slurm.commands import check_key
from airflow_gym_provider.slurm.keys import cluster_of, job_key, number_of

FORBIDDEN = ("airflow.", "pydantic", "jinja2", "paramiko", "asyncssh", "omegaconf", "hydra")


def test_every_name_it_gives_is_there() -> None:
    assert all(hasattr(slurm, name) for name in slurm.__all__)
    assert {"parse_sacct", "parse_squeue", "parse_duration", "format_duration"} <= set(slurm.__all__)


def test_importing_it_is_cheap() -> None:
    code = "import sys, airflow_gym_provider.slurm; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not [name for name in loaded if f"{name}.".startswith(FORBIDDEN)]


@pytest.mark.parametrize(
    ("key", "number", "cluster"), [("60", "60", None), ("60;c2", "60", "c2"), ("60;\n", "60", None)]
)
def test_a_job_is_named_as_sbatch_names_it(key: str, number: str, cluster: str | None) -> None:
    assert (number_of(key), cluster_of(key)) == (number, cluster)
    assert job_key(number, cluster) == key.strip(";\n")


@pytest.mark.parametrize("key", ["60", "60;c2", "60;c-2.x_y"])
def test_a_key_of_a_job_may_go_into_a_command(key: str) -> None:
    assert check_key(key) == key


@pytest.mark.parametrize("key", ["", "60_1", "60 ", "60;", "60;c 2", "60;c2;c3", "60;$(id)", ";c2", "-1", "x"])
def test_what_is_no_key_of_a_job_goes_nowhere(key: str) -> None:
    with pytest.raises(ValueError, match=r"is not (a number|letters)"):
        check_key(key)


@pytest.mark.parametrize("script", ["slurm/remote.sh", "results/survey.sh"])
def test_shell_files_pass_shellcheck(script: str) -> None:
    path = Path(str(resources.files("airflow_gym_provider"))) / script
    done = subprocess.run(["shellcheck", path], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
