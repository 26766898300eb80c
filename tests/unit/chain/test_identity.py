"""A chain is found again by every later try, and never taken for another."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_gym_provider.chain import ChainKey, ChainPlace, check_path, job_name, run_dir, run_dir_name

KEY = ChainKey("nightly", "scheduled__2026-01-31", "evals")
STAMP = datetime(2026, 1, 31, 8, 5, 9, tzinfo=UTC)


def test_the_run_directory_has_the_form_that_users_know():
    assert re.fullmatch(r"gym-job-20260131T080509Z-[0-9a-f]{6}", run_dir_name(KEY, STAMP))


def test_the_same_moment_in_another_zone_is_the_same_directory():
    assert run_dir_name(KEY, STAMP.astimezone(timezone(timedelta(hours=9)))) == run_dir_name(KEY, STAMP)


def test_a_stamp_without_a_zone_is_refused():
    with pytest.raises(ValueError, match="time zone"):
        run_dir_name(KEY, STAMP.replace(tzinfo=None))


@pytest.mark.parametrize(
    "change",
    [
        {"dag_id": "other"},
        {"run_id": "manual__1"},
        {"group": "evals2"},
        {"map_index": 0},
        {"generation": 1},
        {"deployment": "https://other"},
    ],
)
def test_every_part_of_the_key_makes_another_directory_and_another_job_name(change):
    other = replace(KEY, **change)
    assert run_dir_name(other, STAMP) != run_dir_name(KEY, STAMP)
    assert job_name("gpqa", other) != job_name("gpqa", KEY)
    assert other.owner() != KEY.owner()


def test_parts_of_a_key_do_not_run_into_each_other():
    assert ChainKey("a", "b", "c\nd").digest(16) != ChainKey("a", "b\nc", "d").digest(16)


def test_the_owner_is_one_line_whatever_the_ids_hold():
    assert "\n" not in ChainKey("a\nb", "c", "d").owner()


def test_a_job_name_tells_the_benchmark():
    assert re.fullmatch(r"gym-gpqa-[0-9a-f]{8}", job_name("gpqa", KEY))


@given(st.text("abcdefgh._-", min_size=1, max_size=400), st.text("abcdefgh._-", min_size=1, max_size=400))
def test_job_names_are_short_and_distinct_also_when_they_had_to_be_cut(one, two):
    assert len(job_name(one, KEY)) <= 200
    assert (job_name(one, KEY) == job_name(two, KEY)) == (one == two)


def test_long_names_that_begin_alike_stay_apart():
    assert job_name("a" * 300, KEY) != job_name("a" * 301, KEY)


@pytest.mark.parametrize("path", ["runs", "~/runs", "", "/a\nb", "/a\rb", "/a\0b"])
def test_a_path_that_slurm_cannot_carry_is_refused_with_its_place(path):
    with pytest.raises(ValueError, match=r"job\.output_path"):
        run_dir(path, KEY, STAMP)


def test_any_other_path_is_left_alone():
    odd = '/scratch/my runs/$HOME/"q"/it\'s'
    assert check_path("x", odd) == odd
    assert run_dir(odd, KEY, STAMP).startswith(odd + "/gym-job-")


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "x'; touch /tmp/pwned; '", "two\nlines", "naïve"])
def test_a_name_that_is_no_benchmark_gets_no_place(name):
    with pytest.raises(ValueError, match=r"driver\.benchmarks"):
        ChainPlace.at("/runs/r", name, KEY)


def test_a_place_knows_its_directory_and_both_names():
    place = ChainPlace.at("/runs/r", "gpqa", KEY)
    assert (place.job_dir, place.job_name, place.plain_name) == ("/runs/r/gpqa", job_name("gpqa", KEY), "gym-gpqa")
