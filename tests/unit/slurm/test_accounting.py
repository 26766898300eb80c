"""sacct's text to rows: the worked cases, every odd form, and no wrong end whatever is lost on the way."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_gym_provider.slurm import parse_sacct
from airflow_gym_provider.slurm.accounting import SACCT_FIELDS, JobRow, sacct_by_name, sacct_command
from airflow_gym_provider.slurm.states import is_live

DATA = sorted((Path(__file__).parents[2] / "data" / "slurm").glob("*/sacct.txt"))
CAPTURED = DATA[0].read_text(encoding="utf-8")


def only(text: str) -> JobRow:
    rows = parse_sacct(text)
    assert len(rows) == 1
    return rows[0]


def test_the_job_row_decides_not_its_steps() -> None:
    row = only("9|TIMEOUT|0:0|62\n9.batch|FAILED|15:0|62\n9.0|CANCELLED|0:15|62")
    assert (row.job_id, row.state, row.exit_code, row.signal, row.elapsed) == ("9", "TIMEOUT", 0, 0, 62)
    assert [(step.step, step.state) for step in row.steps] == [("batch", "FAILED"), ("0", "CANCELLED")]


def test_failed_steps_read_like_a_warning() -> None:
    row = only(
        "5|COMPLETED|0:0|20\n5.batch|COMPLETED|0:0|20\n5.0|FAILED|1:0|6\n5.1|CANCELLED|0:9|4\n5.2|NODE_FAIL||4\n5.3|RUNNING||4\n"
    )
    assert [str(step) for step in row.steps if step.failed] == ["step 5.0 FAILED 1:0", "step 5.2 NODE_FAIL"]


@pytest.mark.parametrize(
    ("line", "uid"),
    [
        ("7|CANCELLED by 1000|0:0|0", 1000),
        ("8|CANCELLED by 0|0:0|0", 0),
        ("8|CANCELLED|0:0|0", None),
        ("8|CANCELLED+|0:0|0", None),
    ],
)
def test_three_ways_to_be_cancelled(line: str, uid: int | None) -> None:
    assert (only(line).state, only(line).cancelled_by) == ("CANCELLED", uid)


def test_holes_after_a_node_failure() -> None:
    row = only(
        "JobID|State|ExitCode|ElapsedRaw|Start|End|Reason|NodeList\n"
        "22|NODE_FAIL|0:0|3|Unknown|None|None|None assigned\n22.batch|CANCELLED||3|||||\n22.0|CANCELLED|||Unknown|||\n"
    )
    assert (row.start, row.end, row.reason, row.nodes) == (None, None, "", "")
    assert [(step.exit_code, step.signal, step.elapsed) for step in row.steps] == [(None, None, 3), (None, None, 0)]


def test_columns_are_found_by_their_names() -> None:
    row = only("Welcome|to c1\nJobID|Cluster|DerivedExitCode|State|WorkDir|JobName|\n12|c1|3:0|FAILED|/w|gym-x|\nbye\n")
    assert (row.cluster, row.derived_exit_code, row.state, row.work_dir, row.name) == ("c1", 3, "FAILED", "/w", "gym-x")
    assert (row.exit_code, row.elapsed, row.submit) == (None, 0, None)


def test_a_name_with_separators_shifts_nothing() -> None:
    row = only("JobID|JobName|State|ExitCode\n27|a|b|COMPLETED|0:0")
    assert (row.name, row.state, row.exit_code) == ("a|b", "COMPLETED", 0)


def test_a_name_with_a_line_break_is_one_row() -> None:
    rows = parse_sacct("JobID|JobName|State|ExitCode\n27|two\nlines|FAILED|1:0\n28|x|COMPLETED|0:0\n")
    assert [(row.name, row.state) for row in rows] == [("two\nlines", "FAILED"), ("x", "COMPLETED")]


def test_a_lost_end_does_not_swallow_what_follows() -> None:
    noise = "".join(f"noise {number}\n" for number in range(80))
    rows = parse_sacct(f"JobID|JobName|State|ExitCode\n27|two\n{noise}lines|FAILED|1:0\n28|x|COMPLETED|0:0\n")
    assert [row.job_id for row in rows] == ["28"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "JobID|State|ExitCode|ElapsedRaw\n",
        "9|TIMEOUT|0:0",
        "9|TIMEOUT|0:0|6x",
        "27|a|b|COMPLETED|0:0",
        "9|x y|COMPLETED|0:0|62",
        "JobID|State|ExitCode\n27|a|b|COMPLETED|0:0\n",
        "9.batch|FAILED|1:0|3",
        "sacct: error: 9|x",
        "JobID|\n9|",
    ],
)
def test_what_is_no_whole_row_is_no_row(text: str) -> None:
    assert parse_sacct(text) == []


def test_requeued_and_heterogeneous_jobs_keep_every_record() -> None:
    rows = parse_sacct(
        "17|PREEMPTED|0:0|4\n17|PENDING|0:0|0\n10+0|COMPLETED|0:0|4\n10+1|COMPLETED|0:0|5\n10+1.0|FAILED|1:0|4\n12_3|FAILED|1:0|1\n"
    )
    assert [(row.job_id, row.base_id, row.state) for row in rows] == [
        ("17", "17", "PREEMPTED"),
        ("17", "17", "PENDING"),
        ("10+0", "10", "COMPLETED"),
        ("10+1", "10", "COMPLETED"),
        ("12_3", "12", "FAILED"),
    ]
    assert [len(row.steps) for row in rows] == [0, 0, 0, 1, 0]


def test_steps_may_stand_above_their_job() -> None:
    assert only("5.0|FAILED|1:0|6\n5|COMPLETED|0:0|20\n").steps[0].step == "0"


def test_captured_output_is_read_whole() -> None:
    rows = {row.job_id: row for row in parse_sacct(CAPTURED)}
    assert {job: rows[job].state for job in ("1", "2", "4", "7", "8_1", "27", "28", "30", "37")} == {
        "1": "COMPLETED",
        "2": "FAILED",
        "4": "PENDING",
        "7": "TIMEOUT",
        "8_1": "COMPLETED",
        "27": "FAILED",
        "28": "PREEMPTED",
        "30": "NODE_FAIL",
        "37": "CANCELLED",
    }
    assert (rows["2"].name, rows["2"].exit_code, rows["3"].name) == ("a|b", 75, "two\nlines")
    assert rows["37"].cancelled_by == 0
    assert [str(step) for step in rows["1"].steps if step.failed] == ["step 1.1 FAILED 1:0"]


def test_our_own_command() -> None:
    assert sacct_command(["7", "8"], "c2") == (
        "env TZ=UTC0 sacct --clusters=c2 --delimiter=$'\\x1f' --parsable2 --duplicates "
        f"--format={','.join(SACCT_FIELDS)} --jobs=7,8"
    )
    named = sacct_by_name(["gym-x-0a", "it's"], 86400.0)
    assert named.endswith("--name='gym-x-0a,it'\\''s' --starttime=1970-01-02T00:00:00")
    assert "now" not in named


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    parse_sacct(text)
    parse_sacct(f"JobID|State|ExitCode\n{text}")


LINES = st.lists(st.text("0123456789.|+_:ABCDEFMOPT \x1f\n", max_size=30), max_size=12)


@given(LINES)
def test_anything_like_a_table_can_be_read(lines: list[str]) -> None:
    for row in parse_sacct("\n".join(lines)):
        assert row.job_id


def ends(text: str) -> set[tuple[str, str]]:
    return {(row.job_id, row.state) for row in parse_sacct(text) if not is_live(row.state)}


@given(st.integers(0, len(CAPTURED)))
@settings(max_examples=300)
def test_output_cut_at_any_byte_gives_fewer_ends_never_other_ones(end: int) -> None:
    assert ends(CAPTURED[:end]) <= ends(CAPTURED)


@given(st.randoms(use_true_random=False), st.text("ab |:\x1f@", max_size=40))
@settings(max_examples=100)
def test_reordered_lines_and_banners_give_no_other_ends(random: object, banner: str) -> None:
    header, *lines = CAPTURED.splitlines()
    random.shuffle(lines)  # type: ignore[attr-defined]
    lines.insert(len(lines) // 2, banner)
    assert ends("\n".join([header, *lines])) <= ends(CAPTURED)


@given(st.integers(0, len(CAPTURED)), st.integers(0, 300))
@settings(max_examples=300)
def test_a_hole_in_the_middle_gives_no_other_ends(start: int, size: int) -> None:
    header = CAPTURED.index("\n") + 1
    start = max(start, header)
    assert ends(CAPTURED[:start] + CAPTURED[start + size :]) <= ends(CAPTURED)
