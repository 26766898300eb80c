from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_gym_provider.config.durations import format_duration, parse_duration

from .builders import config, loaded, problems_of


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 5400),
        ("90:30", 5430),
        ("4:00:00", 14400),
        ("100:00:00", 360000),
        ("0-12", 43200),
        ("1-00", 86400),
        ("1-2:30", 95400),
        ("2-00:00:01", 172801),
        ("365-00:00:00", 31536000),
        ("0", 0),
    ],
)
def test_reads_every_form_of_slurm(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "abc",
        "12h",
        "-5",
        "1:2:3:4",
        "1-2-3",
        "10:",
        ":10",
        "1-",
        "-1",
        "1-00:00:00:00",
        "1.5",
        "10 ",
        "10\n",
        "１０",
        "UNLIMITED",
        "INFINITE",
        "0x10",
        "1_0",
        "99999999999",
        "9999999999-00",
    ],
)
def test_refuses_everything_else_and_repeats_it(text: str) -> None:
    with pytest.raises(ValueError) as refusal:
        parse_duration(text)
    assert repr(text) in str(refusal.value)


@given(st.integers(min_value=0, max_value=10**9))
def test_format_is_read_back(seconds: int) -> None:
    assert parse_duration(format_duration(seconds)) == seconds


def test_format() -> None:
    assert format_duration(43200) == "12:00:00"
    assert format_duration(90061) == "1-01:01:01"
    with pytest.raises(ValueError, match="negative"):
        format_duration(-1)


@pytest.mark.parametrize("text", ["0", "00:00", "0-0", "-1", "12h", "", "UNLIMITED"])
def test_limits_are_refused_by_their_field(text: str) -> None:
    both = config(compute={"walltime": text}, benchmarks={"gpqa": {"resumable": {"max_walltime": text}}})
    assert set(problems_of(both)) == {"compute.cluster.walltime", "driver.benchmarks.gpqa.resumable.max_walltime"}


def test_a_bare_number_has_no_unit_but_a_clock_keeps_its_text() -> None:
    both = config(compute={"walltime": 90}, benchmarks={"gpqa": {"resumable": {"max_walltime": 90}}})
    problems = problems_of(both)
    assert set(problems) == {"compute.cluster.walltime", "driver.benchmarks.gpqa.resumable.max_walltime"}
    assert all("quotes" in what and "90" in what for what in problems.values())
    assert loaded(config(compute={"walltime": "90"})).cluster.walltime_seconds == 5400


def test_limits_are_seconds_beside_their_text() -> None:
    both = loaded(config(compute={"walltime": "0-12"}, benchmarks={"gpqa": {"resumable": {"max_walltime": "2-00"}}}))
    assert (both.cluster.walltime, both.cluster.walltime_seconds) == ("0-12", 43200)
    limits = both.driver.benchmarks["gpqa"].resume_config
    assert limits is not None and limits.max_walltime_seconds == 172800
    assert loaded(config()).cluster.walltime_seconds is None


def test_durations_cost_nothing_to_import() -> None:
    program = (
        "import sys, airflow_gym_provider.config.durations;"
        "print(sorted({'pydantic', 'yaml', 'omegaconf', 'hydra', 'airflow'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
