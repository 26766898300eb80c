"""One look at many jobs: what is asked, and what squeue and sacct together mean."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_gym_provider.slurm import (
    Ending,
    JobRef,
    JobStatus,
    RemoteScript,
    StatusReport,
    parse_status,
    status_script,
)
from airflow_gym_provider.slurm.accounting import SACCT_FIELDS
from airflow_gym_provider.slurm.commands import chunks
from airflow_gym_provider.slurm.remote import Frame, Frames
from airflow_gym_provider.slurm.tables import SEPARATOR
from airflow_gym_provider.slurm.troubles import ProblemKind

FOLDER = Path(__file__).parents[2] / "data" / "slurm" / "22.05"
QUEUE_COLUMNS = [
    "JOBID",
    "STATE",
    "TIME",
    "TIME_LIMIT",
    "START_TIME",
    "SUBMIT_TIME",
    "NODELIST",
    "REASON",
    "WORK_DIR",
    "NAME",
    "JOBID",
]
DOWN = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
NO_DATABASE = "sacct: error: Problem talking to the database: Connection refused"
DISABLED = "Slurm accounting storage is disabled"


def table(columns: Sequence[str], rows: Iterable[dict[str, str]]) -> str:
    lines = [SEPARATOR.join(columns), *(SEPARATOR.join(row.get(name, "") for name in columns) for row in rows)]
    return "".join(f"{line}\n" for line in lines)


def queued(job_id: str, state: str, **cells: str) -> dict[str, str]:
    return {"JOBID": job_id, "STATE": state, "TIME": "0:00", "WORK_DIR": "/w", **cells}


def recorded(job_id: str, state: str, elapsed: int = 0, code: str = "0:0", **cells: str) -> dict[str, str]:
    return {"JobID": job_id, "State": state, "ElapsedRaw": str(elapsed), "ExitCode": code, "WorkDir": "/w", **cells}


def frames(
    queue: Iterable[dict[str, str]] = (),
    records: Iterable[dict[str, str]] = (),
    squeue: tuple[int, str] = (0, ""),
    sacct: tuple[int, str] = (0, ""),
) -> Frames:
    return Frames(
        [
            Frame("squeue", ("0",), table(QUEUE_COLUMNS, queue)),
            Frame("squeue.end", ("0", str(squeue[0])), squeue[1]),
            Frame("sacct", ("0",), table(SACCT_FIELDS, records)),
            Frame("sacct.end", ("0", str(sacct[0])), sacct[1]),
        ],
        complete=True,
    )


REF = JobRef("7", job_dir="/w")


def look(
    queue: Iterable[dict[str, str]] = (),
    records: Iterable[dict[str, str]] = (),
    squeue: tuple[int, str] = (0, ""),
    sacct: tuple[int, str] = (0, ""),
    ref: JobRef = REF,
) -> JobStatus:
    return parse_status([ref], frames(queue, records, squeue, sacct)).jobs[ref.key]


def verdict(status: JobStatus) -> tuple[bool, bool, bool, Ending | None]:
    return status.live, status.known, status.missing, status.ending


ALIVE, UNKNOWN, MISSING = (True, True, False, None), (True, False, False, None), (False, False, True, None)
UNSETTLED = (False, False, False, None)


def ended(ending: Ending) -> tuple[bool, bool, bool, Ending]:
    return False, True, False, ending


@pytest.mark.parametrize(
    "state", ["PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "REQUEUE_HOLD", "STAGE_OUT", "FOO", ""]
)
@pytest.mark.parametrize("record", ["PREEMPTED", "NODE_FAIL", "REQUEUED", "FAILED", "COMPLETED", "RUNNING", None])
def test_squeue_wins_for_what_lives(state: str, record: str | None) -> None:
    status = look([queued("7", state)], [recorded("7", record)] if record else [])
    assert verdict(status) == ALIVE
    assert status.state == state
    assert status.exit_code is None
    assert status.source == ("both" if record else "squeue")


@pytest.mark.parametrize("ending", [ending for ending in Ending if ending is not Ending.LOST])
def test_an_end_that_both_agree_on_or_squeue_forgot(ending: Ending) -> None:
    record = recorded("7", ending, 62, "1:0" if ending is Ending.FAILED else "0:0")
    for queue in ([], [queued("7", ending, TIME="1:02")]):
        status = look(queue, [record])
        assert verdict(status) == ended(ending)
        assert (status.elapsed, status.exit_code) == (62, 1 if ending is Ending.FAILED else 0)


def test_a_single_unknown_id_is_an_answer_of_squeue() -> None:
    unknown = (1, "slurm_load_jobs error: Invalid job id specified")
    assert verdict(look(squeue=unknown)) == MISSING
    assert verdict(look(records=[recorded("7", "PREEMPTED", 4)], squeue=unknown)) == ended(Ending.PREEMPTED)


def test_five_seconds_of_silence_are_no_end() -> None:
    assert verdict(look()) == MISSING
    assert verdict(look([queued("7", "PENDING", REASON="Priority")])) == ALIVE


@pytest.mark.parametrize(
    ("squeue", "sacct"),
    [((1, DOWN), (0, "")), ((0, ""), (1, NO_DATABASE)), ((1, DOWN), (1, NO_DATABASE)), ((124, ""), (0, ""))],
)
def test_an_outage_says_nothing_about_a_job(squeue: tuple[int, str], sacct: tuple[int, str]) -> None:
    assert verdict(look(squeue=squeue, sacct=sacct)) == UNKNOWN


@pytest.mark.parametrize("ending", ["PREEMPTED", "NODE_FAIL", "FAILED", "TIMEOUT", "CANCELLED by 0"])
def test_without_squeue_a_requeued_job_may_look_ended(ending: str) -> None:
    assert verdict(look(records=[recorded("7", ending)], squeue=(1, DOWN))) == UNKNOWN
    assert verdict(look(records=[recorded("7", "COMPLETED")], squeue=(1, DOWN))) == ended(Ending.COMPLETED)


def test_an_end_in_squeue_waits_for_the_exit_code_from_accounting() -> None:
    assert verdict(look([queued("7", "FAILED")])) == UNSETTLED
    assert verdict(look([queued("7", "FAILED")], [recorded("7", "RUNNING")])) == UNSETTLED
    assert verdict(look([queued("7", "COMPLETED")])) == UNSETTLED
    assert verdict(look([queued("7", "FAILED")], [recorded("7", "PREEMPTED")])) == UNSETTLED


def test_while_accounting_is_away_only_completed_is_an_end() -> None:
    assert verdict(look([queued("7", "FAILED")], sacct=(1, NO_DATABASE))) == UNSETTLED
    status = look([queued("7", "COMPLETED", TIME="0:40")], sacct=(1, NO_DATABASE))
    assert verdict(status) == ended(Ending.COMPLETED)
    assert (status.exit_code, status.signal, status.elapsed, status.source) == (0, 0, 40, "squeue")


def test_a_site_without_accounting_has_squeue_alone() -> None:
    report = parse_status([REF], frames([queued("7", "FAILED", TIME="0:40")], sacct=(1, DISABLED)))
    assert verdict(report.jobs["7"]) == ended(Ending.FAILED)
    assert report.jobs["7"].exit_code is None
    assert not report.sacct_ok
    assert report.problems[0].kind is ProblemKind.ACCOUNTING_DISABLED


def test_a_site_without_accounting_never_tells_what_squeue_has_forgotten() -> None:
    assert verdict(look(sacct=(1, DISABLED))) == MISSING
    assert verdict(look(sacct=(1, NO_DATABASE))) == UNKNOWN


def test_a_job_that_only_accounting_has_running_is_neither_alive_for_sure_nor_lost() -> None:
    status = look(records=[recorded("7", "RUNNING", 50)])
    assert verdict(status) == UNKNOWN
    assert (status.state, status.elapsed) == ("RUNNING", 50)


def test_rows_of_a_tool_that_failed_are_not_used() -> None:
    assert verdict(look([queued("7", "RUNNING")], squeue=(1, DOWN))) == UNKNOWN
    assert verdict(look(records=[recorded("7", "FAILED")], sacct=(1, NO_DATABASE))) == UNKNOWN


def test_requeued_seconds_add_up() -> None:
    first, second = (
        recorded("7", "PREEMPTED", 40, Submit="2026-01-01T00:00:00"),
        recorded("7", "COMPLETED", 20, Submit="2026-01-01T00:01:00"),
    )
    assert look(records=[second, first]).elapsed == 60
    assert verdict(look(records=[second, first])) == ended(Ending.COMPLETED)
    running = replace_cell(second, State="RUNNING", ElapsedRaw="18")
    assert look([queued("7", "RUNNING", TIME="0:21")], [first, running]).elapsed == 61
    assert look([queued("7", "RUNNING", TIME="0:21")], [first]).elapsed == 61
    assert look([queued("7", "PENDING", TIME="0:00")], [first]).elapsed == 40
    assert look([queued("7", "COMPLETING", TIME="0:20")], [first, second]).elapsed == 60
    assert look([queued("7", "RUNNING", TIME="0:21")]).elapsed == 21


def replace_cell(row: dict[str, str], **cells: str) -> dict[str, str]:
    return {**row, **cells}


def test_the_cluster_of_a_federation_that_did_not_get_the_job_decides_nothing() -> None:
    for state, says in (("COMPLETED", ended(Ending.COMPLETED)), ("FAILED", ended(Ending.FAILED)), ("RUNNING", UNKNOWN)):
        rows = [recorded("7", state, 62, Cluster="c1"), recorded("7", "REVOKED", Cluster="c2")]
        for records in (rows, rows[::-1]):
            assert verdict(look(records=records)) == says
            assert (look(records=records).state, look(records=records).elapsed) == (state, 62)
    shown = [queued("7", "REVOKED"), queued("7", "COMPLETED")]
    assert verdict(look(shown, [recorded("7", "COMPLETED"), recorded("7", "REVOKED")])) == ended(Ending.COMPLETED)
    assert verdict(look(records=[recorded("7", "REVOKED")])) == UNKNOWN, "alone it is no end that is known"
    assert verdict(look([queued("7", "REVOKED")], [recorded("7", "REVOKED")])) == ALIVE


def test_a_pending_job_tells_why_and_until_when() -> None:
    status = look([queued("7", "PENDING", REASON="PartitionNodeLimit", START_TIME="2026-01-01T08:00:00", NODELIST="")])
    assert (status.reason, status.start_estimate, status.nodes) == ("PartitionNodeLimit", "2026-01-01T08:00:00Z", "")
    assert look([queued("7", "PENDING", START_TIME="N/A")]).start_estimate is None
    assert look([queued("7", "RUNNING", START_TIME="2026-01-01T08:00:00")]).start_estimate is None


def test_failed_steps_are_told_and_do_not_decide() -> None:
    steps = [
        recorded("7.batch", "COMPLETED"),
        recorded("7.0", "FAILED", 6, "1:0"),
        recorded("7.1", "CANCELLED", 4, "0:9"),
    ]
    status = look(records=[recorded("7", "COMPLETED", 20), *steps])
    assert verdict(status) == ended(Ending.COMPLETED)
    assert status.failed_steps == ("step 7.0 FAILED 1:0",)


def test_who_cancelled_is_told() -> None:
    assert look(records=[recorded("7", "CANCELLED by 1000")]).cancelled_by == 1000
    assert look(records=[recorded("7", "CANCELLED")]).cancelled_by is None


def test_a_heterogeneous_job_lives_while_a_part_does_and_fails_with_a_part() -> None:
    parts = [recorded("7+0", "COMPLETED", 40), recorded("7+1", "FAILED", 50, "3:0"), recorded("7+10", "COMPLETED", 1)]
    status = look(records=parts)
    assert verdict(status) == ended(Ending.FAILED)
    assert (status.exit_code, status.elapsed) == (3, 50)
    assert verdict(look([queued("7+0", "COMPLETED"), queued("7+1", "FAILED")], parts)) == ended(Ending.FAILED)
    assert verdict(look([queued("7+0", "COMPLETED"), queued("7+1", "RUNNING")], parts[:1])) == ALIVE
    assert verdict(look(records=[parts[0], recorded("7+1", "RUNNING", 40)])) == UNKNOWN


def test_another_job_under_the_same_number_is_ignored() -> None:
    other = {"WorkDir": "/other", "JobName": "else"}
    assert verdict(look(records=[recorded("7", "FAILED", **other)])) == MISSING
    assert verdict(look([queued("7", "RUNNING", WORK_DIR="/other")])) == MISSING
    assert verdict(look(records=[recorded("7", "COMPLETED", 5), recorded("7", "FAILED", 900, **other)])) == ended(
        Ending.COMPLETED
    )
    assert look(records=[recorded("7", "COMPLETED", 5), recorded("7", "FAILED", 900, **other)]).elapsed == 5


def test_a_job_submitted_long_before_is_another_one() -> None:
    old, new = (
        recorded("7", "FAILED", 900, Submit="2020-01-01T00:00:00"),
        recorded("7", "COMPLETED", 5, Submit="2026-01-01T00:00:00"),
    )
    ref = JobRef("7", submitted_at=1767225600.0)  # 2026-01-01
    status = look(records=[new, old], ref=ref)
    assert (verdict(status), status.elapsed) == (ended(Ending.COMPLETED), 5)
    assert verdict(look([queued("7", "RUNNING", SUBMIT_TIME="2020-01-01T00:00:00")], ref=ref)) == MISSING


def test_with_nothing_but_a_number_the_newest_record_tells_which_job() -> None:
    old = recorded("7", "FAILED", 900, Submit="2026-01-02T00:00:00", WorkDir="/other", JobName="else")
    new = recorded("7", "COMPLETED", 5, Submit="2026-01-03T00:00:00", JobName="gym-x")
    for records in ([old, new], [new, old]):
        status = look(records=records, ref=JobRef("7"))
        assert (verdict(status), status.elapsed, len(status.rows)) == (ended(Ending.COMPLETED), 5, 1)


def test_the_directory_as_accounting_spells_it_is_still_ours() -> None:
    captured = Frames([*frames()[:2], *sacct_captured()])
    for job_dir in ('/scratch/runs/my "q" runs\'|x', '/scratch//runs/./my "q" runs\'|x/'):
        ref = JobRef("2", job_dir=job_dir)
        assert verdict(parse_status([ref], captured).jobs["2"]) == ended(Ending.FAILED)
    assert verdict(parse_status([JobRef("2", job_dir="/scratch/runs/a")], captured).jobs["2"]) == MISSING


def sacct_captured() -> list[Frame]:
    return [
        Frame("sacct", ("0",), (FOLDER / "sacct.txt").read_text(encoding="utf-8")),
        Frame("sacct.end", ("0", "0"), ""),
    ]


def test_captured_answers_about_live_jobs() -> None:
    told = [(FOLDER / f"{tool}-live.txt").read_text(encoding="utf-8") for tool in ("squeue", "sacct")]
    refs = [JobRef(str(number)) for number in (4, *range(38, 47))]
    answer = Frames(
        [
            Frame("squeue", ("0",), told[0]),
            Frame("squeue.end", ("0", "0"), ""),
            Frame("sacct", ("0",), told[1]),
            Frame("sacct.end", ("0", "0"), ""),
        ]
    )
    jobs = parse_status(refs, answer).jobs
    assert {key for key, status in jobs.items() if verdict(status) != ALIVE} == {"42"}  # the second part of 41
    assert (jobs["40"].state, jobs["40"].reason, jobs["40"].elapsed) == ("PENDING", "job requeued in held state", 2)


def test_one_question_each_for_a_cluster_and_no_command_over_8_kb() -> None:
    refs = [JobRef(str(number)) for number in range(10_000_000, 10_003_000)] + [JobRef("60", "c2"), JobRef("61", "c2")]
    lines = status_script(refs).strip().split("\n")
    assert all(len(line.encode()) < 8192 for line in lines)
    assert sum("--clusters=c2" in line for line in lines) == 2
    assert len(lines) == 2 * (5 + 1)
    asked = {job_id for line in lines for job_id in re.findall(r"--jobs=(\S+)", line)[0].split(",")}
    assert asked == {ref.job_id for ref in refs}
    assert len(status_script([JobRef("1"), JobRef("2"), JobRef("1")]).strip().split("\n")) == 2


def test_equal_numbers_on_two_clusters_stay_apart() -> None:
    refs = [JobRef("60"), JobRef("60", "c2")]
    answer = Frames(
        [
            *frames([queued("60", "RUNNING")]),
            Frame("squeue", ("1",), ""),
            Frame("squeue.end", ("1", "1"), DOWN),
            Frame("sacct", ("1",), table(SACCT_FIELDS, [])),
            Frame("sacct.end", ("1", "0"), ""),
        ]
    )
    report = parse_status(refs, answer)
    assert (verdict(report.jobs["60"]), verdict(report.jobs["60;c2"])) == (ALIVE, UNKNOWN)
    assert (report.squeue_ok, report.sacct_ok) == (False, True)


def test_the_same_trouble_is_told_once() -> None:
    refs = [JobRef(str(number)) for number in range(10_000_000, 10_003_000)]
    answer = Frames()
    for tag in range(5):
        for tool, told in (("squeue", DOWN), ("sacct", NO_DATABASE)):
            answer += [Frame(tool, (str(tag),), ""), Frame(f"{tool}.end", (str(tag), "1"), told)]
    report = parse_status(refs, answer)
    assert [problem.kind for problem in report.problems] == [ProblemKind.UNREACHABLE, ProblemKind.UNREACHABLE]
    assert not any(status.known for status in report.jobs.values())


def test_an_answer_that_says_what_is_missing() -> None:
    report = parse_status(
        [REF], Frames([Frame("error", ("no-slurm",), "Slurm is not on the PATH, set slurm_bin\n")], complete=True)
    )
    assert "slurm_bin" in report.problems[0]
    assert report.problems[0].kind is ProblemKind.NO_TOOL
    assert verdict(report.jobs["7"]) == UNKNOWN


@given(st.integers(0, 10_000), st.sampled_from(["COMPLETED", "RUNNING"]))
def test_an_answer_cut_anywhere_ends_nothing_that_the_whole_one_does_not(end: int, state: str) -> None:
    script = RemoteScript.build(status_script([REF]))
    mark = f"\n@@{script.nonce} "
    queue, records = (
        table(QUEUE_COLUMNS, [queued("7", "RUNNING")]),
        table(SACCT_FIELDS, [recorded("7", "PREEMPTED"), recorded("7", state)]),
    )
    told = (
        f"{mark}squeue 0\n{queue}{mark}squeue.end 0 0\n\n{mark}sacct 0\n{records}{mark}sacct.end 0 0\n\n{mark}end 0\n"
    )
    status = parse_status([REF], script.frames(told[:end])).jobs["7"]
    assert status.live
    assert status.ending is None


@given(
    st.lists(
        st.tuples(st.sampled_from(["squeue", "sacct", "squeue.end", "sacct.end", "progress"]), st.text(max_size=40))
    )
)
def test_any_frames_can_be_read(pieces: list[tuple[str, str]]) -> None:
    report = parse_status([REF], Frames([Frame(name, ("0", "x"), text) for name, text in pieces]))
    assert isinstance(report, StatusReport)
    assert report.jobs["7"].ending is None


@given(st.lists(st.integers(1, 10**9).map(str)))
def test_chunks_keep_every_id_once(ids: list[str]) -> None:
    assert [job_id for chunk in chunks(ids) for job_id in chunk] == list(dict.fromkeys(ids))


def test_refs_are_checked_before_they_reach_a_shell() -> None:
    with pytest.raises(ValueError, match="not a number"):
        status_script([JobRef("1; rm -rf /")])


def test_keys_are_what_sbatch_answers() -> None:
    assert (JobRef("60").key, replace(JobRef("60"), cluster="c2").key) == ("60", "60;c2")


def test_the_whole_way_through_bash(tmp_path: Path) -> None:
    for tool, text in (("squeue", table(QUEUE_COLUMNS, [queued("7", "RUNNING")])), ("sacct", ""), ("sbatch", "")):
        path = tmp_path / tool
        path.write_text(f"#!/bin/sh\necho \"$TZ $*\" >>{tmp_path}/calls\ncat <<'END'\n{text}END\n")
        path.chmod(0o755)
    script = RemoteScript.build(status_script([REF]), slurm_bin=str(tmp_path))
    done = subprocess.run(
        ["bash", "-s"], input=script.text, capture_output=True, text=True, env=os.environ | {"TZ": "Asia/Tokyo"}
    )
    assert verdict(parse_status([REF], script.frames(done.stdout)).jobs["7"]) == ALIVE
    calls = (tmp_path / "calls").read_text().splitlines()
    assert [call.split(" ")[0] for call in calls] == ["UTC0", "UTC0"]
    assert f"--format=%i{SEPARATOR}%T" in calls[0]
    assert f"--delimiter={SEPARATOR} " in calls[1]
