"""squeue's text to rows, and the questions."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_gym_provider.slurm import parse_squeue
from airflow_gym_provider.slurm.queue import (
    SQUEUE_FORMAT,
    squeue_by_name,
    squeue_command,
    squeue_of_ids,
    squeue_of_user,
)

FOLDER = Path(__file__).parents[2] / "data" / "slurm" / "22.05"
LIVE = (FOLDER / "squeue-live.txt").read_text(encoding="utf-8")


def test_captured_output_is_read_whole() -> None:
    rows = {row.job_id: row for row in parse_squeue(LIVE)}
    assert sorted(rows) == ["38", "39", "4", "40", "41+0", "41+1", "43", "44", "45_1", "45_[2-3%1]", "46"]
    assert (rows["39"].name, rows["39"].state, rows["39"].nodes) == ("two\nlines", "RUNNING", "n1")
    assert (rows["40"].reason, rows["40"].name) == ("job requeued in held state", "a|b")
    assert rows["40"].work_dir == '/scratch/runs/my "q" runs\'|x'
    assert (rows["44"].reason, rows["44"].time_limit, rows["44"].start_estimate) == (
        "PartitionTimeLimit",
        30 * 86400,
        None,
    )
    assert (rows["38"].elapsed, rows["38"].reason, rows["38"].base_id) == (8, "", "38")
    assert (rows["41+1"].base_id, rows["45_[2-3%1]"].base_id) == ("41", "45")


def test_cluster_lines_repeated_headers_and_banners_are_passed_over() -> None:
    header, *rest = LIVE.split("\n")
    text = "\n".join(["Maintenance | on | Monday", "CLUSTER: c1", header, "", "CLUSTER: c2", header, *rest])
    assert parse_squeue(text) == parse_squeue(LIVE)


def test_a_table_of_people_is_read_too() -> None:
    row = parse_squeue("JOBID|STATE|TIME|TIME_LIMIT|REASON\n7|RUNNING|1-02:03:04|UNLIMITED|None\n")[0]
    assert (row.elapsed, row.time_limit, row.reason, row.name) == (93784, None, "", "")


@given(st.integers(0, len(LIVE)))
def test_output_cut_at_any_byte_gives_only_rows_that_are_true(end: int) -> None:
    whole = parse_squeue(LIVE)
    assert all(row in whole for row in parse_squeue(LIVE[:end]))


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    parse_squeue(text)
    parse_squeue(LIVE[:200] + text)


def test_our_own_commands() -> None:
    told = squeue_command(["7", "8"], "c2")
    assert told.startswith("env TZ=UTC0 squeue --clusters=c2 --all --states=all --format=$'%i\\x1f%T")
    assert told.endswith("--jobs=7,8")
    assert squeue_by_name(["gym-a b"]).endswith("--name='gym-a b'")
    assert SQUEUE_FORMAT.startswith("%i")
    assert SQUEUE_FORMAT.endswith("%i")


@pytest.mark.parametrize(
    "told", [squeue_command(["7"]), squeue_by_name(["gym-a"]), squeue_of_ids('"$1"'), squeue_of_user("c2")]
)
def test_every_question_is_about_hidden_partitions_too(told: str) -> None:
    assert "--all" in told.split()


@pytest.mark.parametrize("ids", [[], ["7;8"], ["7", "-1"], ["7 8"], [""], ["٣"]])
def test_what_is_no_id_is_refused(ids: list[str]) -> None:
    with pytest.raises(ValueError, match="job id"):
        squeue_command(ids)


@pytest.mark.parametrize("names", [[], ["a,b"], [""], ["two\nlines"]])
def test_what_cannot_be_searched_for_is_refused(names: list[str]) -> None:
    with pytest.raises(ValueError, match="name"):
        squeue_by_name(names)


@pytest.mark.parametrize("cluster", ["-x", "a,b", "a b", "$(x)"])
def test_what_is_no_cluster_is_refused(cluster: str) -> None:
    with pytest.raises(ValueError, match="cluster"):
        squeue_command(["7"], cluster)
