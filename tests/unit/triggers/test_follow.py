"""What a task's log says while it waits, and when the waiting is over."""

import logging
from dataclasses import replace

import pytest

from airflow_gym_provider.exceptions import SlurmAuthenticationError, SlurmUnreachableError
from airflow_gym_provider.slurm.accounting import JobRow
from airflow_gym_provider.slurm.progress import Progress
from airflow_gym_provider.slurm.states import Ending
from airflow_gym_provider.slurm.status import JobRef, JobStatus
from airflow_gym_provider.triggers.follow import Follower, clock
from airflow_gym_provider.triggers.observe import Observation

REF = JobRef("60")


def look(progress=None, **fields):
    status = JobStatus(REF, **({"known": True} | fields))
    return Observation({"60": status}, {"60": progress} if progress else {}, answered=True)


def say(follower, observation, now=0.0):
    lines, event = follower.see(observation, now)
    return [line.text for line in lines], event


def test_changes_are_said_once():
    follower = Follower([REF])
    pending = look(state="PENDING", reason="Priority", start_estimate="2026-01-01T10:00:00Z")
    assert say(follower, pending)[0] == ["job 60: PENDING (Priority), expected to start at 2026-01-01T10:00:00Z"]
    assert say(follower, pending)[0] == []
    assert say(follower, look(state="PENDING", reason="PartitionNodeLimit"))[0] == [
        "job 60: PENDING (PartitionNodeLimit): it will not start as it is; clear the task with a config that asks for "
        "fewer nodes, or another partition, unless nodes are just away"
    ]
    assert say(follower, look(state="RUNNING", nodes="n[1-2]"))[0] == ["job 60: RUNNING on n[1-2]"]


def test_a_held_job_is_a_warning_with_the_cure():
    lines, _ = Follower([REF]).see(look(state="PENDING", reason="JobHeldUser"), 0)
    assert lines[0].level == logging.WARNING
    assert "held" in lines[0].text.lower()
    assert "scontrol release" in lines[0].text


def test_an_end_is_the_event():
    lines, event = say(Follower([REF]), look(state="TIMEOUT", live=False, ending=Ending.TIMEOUT, elapsed=62))
    assert lines == ["job 60: TIMEOUT after 00:01:02"]
    assert event["reason"] == "ended"
    [end] = event["jobs"]
    assert (end["job_id"], end["state"], end["ending"], end["elapsed"]) == ("60", "TIMEOUT", "TIMEOUT", 62)
    assert (end["exit_code"], end["failed_steps"], end["accounted"]) == (None, [], False)


def test_an_event_tells_whether_accounting_has_the_end_too():
    done = {"state": "COMPLETED", "live": False, "ending": Ending.COMPLETED, "failed_steps": ("step 60.0 FAILED 1:0",)}
    [end] = say(Follower([REF]), look(**done, rows=(JobRow("60", "COMPLETED"),)))[1]["jobs"]
    assert (end["accounted"], end["failed_steps"]) == (True, ["step 60.0 FAILED 1:0"])
    assert say(Follower([REF]), look(**done, rows=(JobRow("60", "RUNNING"),)))[1]["jobs"][0]["accounted"] is False


@pytest.mark.parametrize("state", ["REQUEUED", "COMPLETING", "FOO", ""])
def test_what_is_no_end_is_none(state):
    assert say(Follower([REF]), look(state=state))[1] is None


def test_all_jobs_must_have_ended():
    other = JobRef("61", "c2")
    follower = Follower([REF, other])
    done = JobStatus(REF, state="COMPLETED", live=False, known=True, ending=Ending.COMPLETED)
    running = JobStatus(other, state="RUNNING", known=True)
    assert say(follower, Observation({"60": done, "61;c2": running}, answered=True))[1] is None
    failed = JobStatus(other, state="FAILED", live=False, known=True, ending=Ending.FAILED, exit_code=1, signal=0)
    event = say(follower, Observation({"60": done, "61;c2": failed}, answered=True))[1]
    assert [job["job_id"] for job in event["jobs"]] == ["60", "61;c2"]


def test_what_accounting_alone_has_alive_is_lost_after_an_hour():
    follower = Follower([REF], lost_after=90)
    runaway = look(state="RUNNING", known=False, runaway=True)
    assert say(follower, runaway, 0) == ([], None)  # slurmdbd is often a little behind
    lines, event = say(follower, runaway, 90)
    assert lines == [
        "job 60 is unknown to squeue, and RUNNING in accounting just now; it counts as lost if that stays so for 3600 s"
    ]
    assert event is None
    assert say(follower, look(), 95)[1] is None
    assert say(follower, runaway, 100)[1] is None
    assert say(follower, runaway, 3699)[1] is None
    assert say(follower, runaway, 3700)[1]["reason"] == "lost"


def test_lost_only_after_the_grace_and_only_when_both_answer():
    follower = Follower([REF], lost_after=90)
    missing = look(known=False, live=False, missing=True)
    lines, event = say(follower, missing, 0)
    assert "unknown" in lines[0]
    assert event is None
    assert say(follower, Observation.failed(SlurmUnreachableError("away")), 80)[1] is None
    assert say(follower, look(known=False, live=True), 85)[1] is None  # squeue did not answer: counted from anew
    assert say(follower, missing, 100)[1] is None
    assert say(follower, missing, 189)[1] is None
    event = say(follower, missing, 190)[1]
    assert (event["reason"], event["unknown_for"]) == ("lost", 90)


def test_an_outage_is_said_when_it_begins_and_when_it_is_over():
    follower = Follower([REF])
    said = []
    for minute in range(60):
        text = "sacct: Connection refused" if minute % 2 else "sacct: Problem talking to the database"
        said += say(follower, Observation(problems=(text,), slow_down=True), minute * 60.0)[0]
    assert len(said) == 1
    assert "still waiting" in said[0]
    assert say(follower, look(state="RUNNING"), 3600)[0][0] == "Slurm answers again after 01:00:00"


def test_a_refusal_is_over_at_once():
    event = say(Follower([REF]), Observation.failed(SlurmAuthenticationError("login refused"), fatal=True))[1]
    assert (event["reason"], event["text"]) == ("refused", "login refused")


def test_progress_is_said_in_tenths_or_every_ten_minutes():
    follower = Follower([REF])
    said = say(follower, look(state="RUNNING", nodes="n1"))[0]
    for done in range(1, 1001):
        running = look(Progress("/r", done=done, expected=1000), state="RUNNING", nodes="n1", elapsed=done * 3)
        said += say(follower, running, done * 3.0)[0]
    assert "job 60: RUNNING 00:15:00 on n1 · 300 of 1000 rollouts" in said
    assert len(said) <= 14


def test_no_progress_is_said_before_rollouts_are_expected():
    follower = Follower([REF])
    say(follower, look(state="RUNNING"))
    assert say(follower, look(Progress("/r"), state="RUNNING"), 5000)[0] == []


def test_days():
    assert clock(93784) == "1-02:03:04"


def test_files_that_hang_are_said_once_and_keep_no_job_from_being_followed():
    follower = Follower([REF])
    hangs = replace(look(state="RUNNING", live=True), late="a file system hangs")
    assert say(follower, hangs)[0] == ["a file system hangs", "job 60: RUNNING"]
    assert say(follower, hangs)[0] == []
    assert say(follower, look(state="RUNNING", live=True))[0] == []
    assert say(follower, hangs)[0] == ["a file system hangs"]


HELD = "somebody must release it (scontrol release)"


@pytest.mark.row("the job waits for what waiting does not mend (held, over a limit of its partition or QOS, …)")
@pytest.mark.parametrize(
    ("state", "reason", "cure"),
    [
        ("PENDING", "JobHoldMaxRequeue", HELD),
        ("PENDING", "job_requeued_in_held_state", HELD),
        ("SPECIAL_EXIT", "job_requeued_in_special_exit_state", HELD),
        ("RESV_DEL_HOLD", "", HELD),
        ("PENDING", "DependencyNeverSatisfied", "what it depends on has ended otherwise"),
        ("PENDING", "PartitionTimeLimit", "a config that asks for less walltime"),
        ("PENDING", "PartitionNodeLimit", "a config that asks for fewer nodes"),
        ("PENDING", "BadConstraints", "a config that asks for features and memory"),
        ("PENDING", "InvalidAccount", "a config that asks for another account"),
        ("PENDING", "InvalidQOS", "a config that asks for another QOS"),
        ("PENDING", "QOSMaxWallDurationPerJobLimit", "a config that asks for less walltime"),
        ("PENDING", "QOSMaxGRESPerJob", "a config that asks for less at once"),
        ("PENDING", "AssocGrpGRESMinutes", "the budget of its account or QOS is used up"),
        ("FOO", "", "a state that this release does not know"),
    ],
)
def test_what_waiting_alone_does_not_mend_is_a_warning_with_the_cure(state, reason, cure):
    [line] = Follower([REF]).see(look(state=state, reason=reason), 0)[0]
    assert line.level == logging.WARNING
    assert line.text.startswith(f"job 60: {state}")
    assert cure in line.text.partition(f"job 60: {state}")[2]


@pytest.mark.parametrize("reason", ["Priority", "Resources", "BeginTime", "QOSMaxJobsPerUserLimit", "Dependency", ""])
def test_a_job_that_waits_its_turn_is_no_warning(reason):
    [line] = Follower([REF]).see(look(state="PENDING", reason=reason), 0)[0]
    assert line.level == logging.INFO


@pytest.mark.row("the site keeps no accounts, and squeue has forgotten the job")
def test_a_lost_job_of_a_site_without_accounting_says_so():
    follower, text = Follower([REF], 60), "accounting is disabled on this cluster"
    gone = Observation({REF.key: JobStatus(REF, live=False, missing=True)}, problems=(text,))
    assert follower.see(gone, 0)[1] is None
    assert follower.see(gone, 60)[1]["text"] == f"unknown to squeue and sacct: 60 ({text})"
