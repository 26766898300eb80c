"""Slurm's clocks and dates, and durations as this room gives them on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_gym_provider.slurm import format_duration, parse_duration
from airflow_gym_provider.slurm.times import clock_seconds, epoch, utc_text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0:05", 5),
        ("00:00", 0),
        ("1:02:03", 3723),
        ("1-02:03:04", 93784),
        ("00:00.123", 0),
        ("UNLIMITED", None),
        ("INVALID", None),
        ("N/A", None),
        ("Partition_Limit", None),
        ("", None),
        ("5", None),
    ],
)
def test_clocks(text: str, seconds: int | None) -> None:
    assert clock_seconds(text) == seconds


@pytest.mark.parametrize("text", [None, "", "Unknown", "None", "N/A", "2026-13-01T00:00:00", "14:43:53", "2026-01-01"])
def test_what_is_no_date(text: str | None) -> None:
    assert epoch(text) is None


@given(st.integers(0, 4_000_000_000))
def test_dates_go_there_and_back(seconds: int) -> None:
    assert epoch(utc_text(seconds)) == seconds


@given(st.integers(0, 10**8))
def test_durations_go_there_and_back(seconds: int) -> None:
    assert parse_duration(format_duration(seconds)) == seconds
