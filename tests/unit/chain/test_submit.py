"""Submission: one sbatch for each benchmark, its answer believed as far as it goes, and everything written down."""

from __future__ import annotations

import base64
import itertools
import os
import shutil
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest
from fakes.chains import JOB, Chains, at_once, modes, text_of

import airflow_gym_provider.chain
from airflow_gym_provider.chain import (
    Action,
    ChainKey,
    ForeignDirectoryError,
    OutcomeKind,
    StagedFile,
    submit_script,
)
from airflow_gym_provider.jobscript import quote

SCRIPTS = Path(airflow_gym_provider.chain.__file__).with_name("scripts")
TOOLS = (
    "awk",
    "base64",
    "cat",
    "chmod",
    "cksum",
    "cut",
    "date",
    "env",
    "flock",
    "grep",
    "head",
    "id",
    "ls",
    "mkdir",
    "mv",
)
TOOLS += ("mv", "rm", "sed", "sha256sum", "sort", "stat", "tail", "timeout", "touch", "tr", "uname", "wc")


def only(report):
    (outcome,) = report.outcomes.values()
    return outcome


def test_a_first_submission_makes_one_job_and_records_it(chains, slurm):
    outcome = only(chains.submit(changes={"walltime": 4242, "used": 7, "retries": 1}))
    assert (outcome.kind, outcome.job_id, outcome.cluster) == (OutcomeKind.SUBMITTED, "101", None)
    (job,) = slurm.jobs
    place = chains.places[0]
    assert (job["name"], job["dir"], job["time"], job["size"]) == (place.job_name, place.job_dir, "1:10:42", len(JOB))
    assert chains.file(".gym_job_chain") == "101\n"
    assert chains.file(".gym_accumulated_walltime") == "7\n"
    assert chains.file(".gym_infra_retries") == "1\n"
    assert chains.record()["benchmarks"] == [
        {"benchmark": "gpqa", "job_dir": place.job_dir, "job_id": "101", "error": None}
    ]
    assert Path(chains.run_dir, "resolved-config.yaml").read_text() == "a: 1\n"
    assert not (chains.directory() / ".gym_intent").exists()


def test_a_benchmark_that_cannot_resume_has_a_chain_but_no_counters(chains):
    chains.submit(changes={"resumable": False})
    assert chains.file(".gym_job_chain") == "101\n"
    assert not (chains.directory() / ".gym_infra_retries").exists()


def test_only_the_job_script_is_private(chains):
    chains.submit()
    found = modes(Path(chains.run_dir))
    assert found.pop("gpqa/job.sh") == 0o600
    assert {mode for name, mode in found.items() if Path(chains.run_dir, name).is_dir()} == {0o755}
    assert {mode for name, mode in found.items() if Path(chains.run_dir, name).is_file()} == {0o644}
    assert Path(chains.run_dir).stat().st_mode & 0o777 == 0o755


def test_the_time_limit_is_the_scripts_own_unless_told(chains, slurm):
    chains.submit()
    assert not [word for word in slurm.calls("sbatch")[0]["argv"] if "--time" in word]


def test_a_login_environment_does_not_reach_the_call(chains, slurm):
    chains.environ = {"SBATCH_PARTITION": "wrong", "SLURM_CLUSTERS": "c9", "SQUEUE_FORMAT": "%i", "LC_ALL": "C.UTF-8"}
    assert only(chains.submit()).kind is OutcomeKind.SUBMITTED
    assert slurm.calls("sbatch")[0]["env"] == {"LC_ALL": "C.UTF-8"}


def test_forwarded_values_reach_sbatch_alone(chains, slurm, tmp_path):
    values = {"HF_TOKEN": "CANARY-1 'a\" $b\nc", "EMPTY": "", "LC_ALL": "CANARY-2", "PATH": "/CANARY-3"}
    values |= {"BIG": "CANARY-4 " + "x" * 100_000, "LINES": "CANARY-5\n\n"}
    ours = ("gym_name", "gym_dir", "gym_time", "gym_sbatch_seconds", "timeout", "sbatch")  # variables of the script
    values |= dict.fromkeys(ours, "CANARY-4 --wrap=x")
    assert only(chains.submit(environ=values)).kind is OutcomeKind.SUBMITTED
    env = slurm.jobs[0]["env"]
    assert {name: env[name] for name in values} == values
    assert "CANARY" not in "".join(str(call["argv"]) for call in slurm.calls("sbatch"))
    (chains.directory() / "job.sh").unlink()
    assert "CANARY" not in text_of(Path(chains.run_dir))
    assert "CANARY" not in repr(StagedFile("job.sh", JOB, 0o600))


def test_no_program_but_sbatch_is_given_a_secret_whatever_it_does(chains, slurm, tmp_path):
    """Every program that the script starts tells its arguments and its environment: nothing else is seen by others."""
    spies, log = tmp_path / "spies", tmp_path / "seen"
    spies.mkdir()
    for tool in TOOLS:
        tell = f'{{ printf "\\0%s\\n" "{tool} $*"; {shutil.which("env")}; }} >>{quote(str(log))}'
        (spies / tool).write_text(f'#!/bin/bash\n{tell}\nexec {shutil.which(tool)} "$@"\n')
        (spies / tool).chmod(0o755)
    chains.environ = {"PATH": f"{slurm.root}/bin:{spies}:{os.environ['PATH']}"}
    assert only(chains.submit(environ={"HF_TOKEN": "CANARY-1"})).kind is OutcomeKind.SUBMITTED
    started = [
        words.partition("\n") for words in log.read_text().split("\0")[1:]
    ]  # (program and arguments, environment)
    assert {"base64", "sha256sum", "chmod", "mv", "timeout"} <= {words.split(" ")[0] for words, _, _ in started}
    assert [words for words, _, _ in started if "CANARY" in words] == []
    # `timeout`, which starts sbatch, and `touch`, which tells when that was over, have sbatch's environment.
    holders = {words.split(" ")[0] for words, _, environment in started if "CANARY" in environment}
    assert {"timeout"} <= holders <= {"timeout", "touch"}
    seen = log.read_text().splitlines()
    assert [line for line in seen if base64.b64encode(JOB.encode()).decode()[:20] in line] == []


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o027, 0o077])
def test_nobody_else_may_write_where_a_job_script_lies_whatever_the_logins_umask(chains, slurm, umask):
    previous = os.umask(umask)
    try:
        chains.submit()
    finally:
        os.umask(previous)
    found = modes(Path(chains.run_dir)) | {".": Path(chains.run_dir).stat().st_mode & 0o777}
    assert found["gpqa/job.sh"] == 0o600
    assert {name: mode for name, mode in found.items() if mode & 0o022} == {}
    assert found["gpqa"] == found["."] == 0o755 & ~umask
    assert slurm.jobs[0]["umask"] == umask, "a job's own files are made as its account's always are"


@pytest.mark.parametrize("name", ["UID", "A B", "", "1X", "A=B", "x;y", "_", "RANDOM", "_gym_saved_lc_all", "X\n"])
def test_what_cannot_be_a_variable_is_refused(chains, name):
    with pytest.raises(ValueError, match="forward_env"):
        submit_script(chains.files(), chains.submissions(), environ={name: "x"})


@pytest.mark.parametrize("path", ["/etc/x", "../x", "a/../../x", "./x", "a//b"])
def test_staged_files_stay_in_their_directory(chains, path):
    given = [replace(item, files=(StagedFile(path, "x"),)) for item in chains.submissions()]
    with pytest.raises(ValueError, match="inside"):
        submit_script(chains.files(), given)


def test_files_arrive_byte_for_byte(chains):
    odd = "ü 'q' \"d\" $HOME `x` \\ \t\n\n"
    files = (StagedFile("job.sh", JOB, 0o600), StagedFile("conf/more/x.yaml", odd), StagedFile("empty", ""))
    chains.submit(changes={"files": files})
    assert chains.file("conf/more/x.yaml") == odd
    assert chains.file("empty") == ""


def test_twenty_benchmarks_take_one_round_trip_and_are_all_recorded(tmp_path, slurm):
    names = [f"b{number:02}" for number in range(20)]
    many = Chains(tmp_path / "out", slurm, *names)
    report = many.submit()
    assert {outcome.kind for outcome in report.outcomes.values()} == {OutcomeKind.SUBMITTED}
    assert [entry["benchmark"] for entry in many.record()["benchmarks"]] == names
    assert {entry["job_id"] for entry in many.record()["benchmarks"]} == {str(number) for number in range(101, 121)}


def test_one_benchmarks_failure_shifts_nobody_elses_id(tmp_path, slurm):
    refused = {"rc": 1, "stderr": 'sbatch: error: Batch job submission failed: Invalid qos "x\\y"\n'}
    slurm.plan("sbatch", {}, refused, {})
    many = Chains(tmp_path / "out", slurm, "a", "b", "c")
    outcomes = many.submit().outcomes
    assert [outcomes[name].job_id for name in "abc"] == ["101", None, "102"]
    assert (outcomes["b"].kind, outcomes["b"].returncode) == (OutcomeKind.REFUSED, 1)
    assert "Invalid qos" in outcomes["b"].stderr
    entries = {entry["benchmark"]: entry for entry in many.record()["benchmarks"]}
    assert entries["b"]["job_id"] is None
    assert entries["b"]["error"] == refused["stderr"].strip()
    assert (entries["c"]["job_id"], entries["c"]["error"]) == ("102", None)
    assert not (many.directory("b") / ".gym_intent").exists()


@pytest.mark.parametrize(
    ("turn", "job_id", "cluster"),
    [
        ({"stdout": "101\n"}, "101", None),
        ({"stdout": "{id};c2\n"}, "101", "c2"),
        ({"stdout": "{id}", "before": "Welcome to login1\n*** 3 messages ***\n", "stderr": "motd\n"}, "101", None),
        ({"stdout": "{id}\nbye\n"}, "101", None),
        ({"stdout": "Submitted batch job {id}\n"}, "101", None),
        ({"stdout": "Submitted batch job {id} on cluster c2\r\n"}, "101", "c2"),
        ({"stderr": "sbatch: error: temporarily unable to accept job, sleeping and retrying\n"}, "101", None),
        ({"stderr": "sbatch: warning: can't honor --ntasks-per-node\n"}, "101", None),
        ({"stdout": "42\n{id}\n"}, "101", None),
        ({"stdout": "no number at all\n"}, "101", None),
        ({"stdout": "0\n"}, "101", None),
        ({"stdout": "4294967294\n"}, "101", None),
        ({"stdout": "0123\n"}, "101", None),
    ],
)
def test_the_answer_is_found_among_banners_and_warnings(chains, slurm, turn, job_id, cluster):
    slurm.plan("sbatch", turn)
    outcome = only(chains.submit())
    assert (outcome.kind, outcome.job_id, outcome.cluster) == (OutcomeKind.SUBMITTED, job_id, cluster)
    assert chains.file(".gym_job_chain") == f"{job_id}\n"


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (1, "sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified"),
        (255, "sbatch: error: Invalid --time specification"),
        (1, "sbatch: unrecognized option '--foo'"),
        (127, ""),
    ],
)
def test_a_clear_refusal_leaves_nothing_to_wait_for(chains, slurm, status, text):
    slurm.plan("sbatch", {"rc": status, "stderr": text})
    assert only(chains.submit()).kind is OutcomeKind.REFUSED
    assert only(chains.submit()).kind is OutcomeKind.SUBMITTED
    assert len(slurm.jobs) == 1


LOST_ANSWERS = [
    {"rc": 1, "stderr": "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation\n"},
    {"rc": 1, "stderr": "sbatch: error: Batch job submission failed: Unable to contact slurm controller\n"},
    {"rc": 1, "stderr": "sbatch: error: Batch job submission failed: Message send failure\n"},
    {"rc": 1, "stderr": "sbatch: error: Batch job submission failed: Protocol authentication error\n"},
    {"rc": 1, "stderr": "something nobody has seen before\n"},
    {"rc": 0, "stdout": ""},
    {"rc": 1, "stdout": "101\n"},
    {"delay": 30},
]


@pytest.mark.row('`sbatch` says "Socket timed out"')
@pytest.mark.parametrize("turn", LOST_ANSWERS)
def test_a_job_made_in_spite_of_a_lost_answer_is_found_and_kept(chains, slurm, turn):
    chains.timing = replace(chains.timing, sbatch=1)
    slurm.plan("sbatch", turn | {"creates": True})
    outcome = only(chains.submit())
    assert (outcome.kind, outcome.job_id) == (OutcomeKind.SUBMITTED, "101")
    assert chains.file(".gym_job_chain") == "101\n"
    assert only(chains.submit(chains.look())).kind is OutcomeKind.ADOPTED
    assert len(slurm.jobs) == 1


@pytest.mark.parametrize("turn", LOST_ANSWERS)
def test_without_a_job_to_be_seen_the_next_try_waits(chains, slurm, turn):
    chains.timing = replace(chains.timing, sbatch=1)
    slurm.plan("sbatch", turn | {"creates": False})
    outcome = only(chains.submit())
    assert (outcome.kind, outcome.wait) == (OutcomeKind.WAIT, 30)
    assert chains.record()["benchmarks"][0]["job_id"] is None
    look = chains.look()
    assert chains.decisions(look)["gpqa"].action is Action.WAIT
    assert only(chains.submit(look)).kind is OutcomeKind.WAIT
    assert len(slurm.calls("sbatch")) == 1
    chains.age_intent(15)
    assert 0 < only(chains.submit(look)).wait <= 15
    chains.age_intent(16)
    look = chains.look()
    assert chains.decisions(look)["gpqa"].action is Action.SUBMIT
    assert only(chains.submit(look)).kind is OutcomeKind.SUBMITTED
    assert len(slurm.jobs) == 1


def test_a_refusal_in_unknown_words_is_believed_the_third_time(chains, slurm):
    slurm.plan("sbatch", {"rc": 1, "stderr": "site wrapper: come back with a project"}, always=True)
    kinds = []
    for _ in range(3):
        kinds.append(only(chains.submit(chains.look())).kind)
        chains.age_intent()
    assert kinds == [OutcomeKind.WAIT, OutcomeKind.WAIT, OutcomeKind.REFUSED]
    assert (chains.directory() / ".gym_intent").exists(), "the third may have made a job, as the first may have"
    assert only(chains.submit(chains.look())).kind is OutcomeKind.WAIT
    slurm.plan("sbatch")
    chains.age_intent()
    assert only(chains.submit(chains.look())).kind is OutcomeKind.SUBMITTED
    assert not (chains.directory() / ".gym_unsure").exists()


@pytest.mark.row('`sbatch` says "Socket timed out"')
def test_an_answer_that_is_lost_is_no_refusal_however_often(chains, slurm):
    lost = {"rc": 1, "stderr": "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation\n"}
    late = {"creates": True, "job": {"squeue": False, "sacct": False}}
    slurm.plan("sbatch", lost, lost, lost, lost | late, {})
    for _ in range(4):
        chains.age_intent()
        assert only(chains.submit(chains.look())).kind is OutcomeKind.WAIT
    assert only(chains.submit(chains.look())).kind is OutcomeKind.WAIT, "its job may not show yet"
    slurm.set(101, squeue=True)
    assert only(chains.submit(chains.look())).kind is OutcomeKind.ADOPTED
    assert slurm.live == [101]


@pytest.mark.parametrize("turn", [{"rc": 127}, {"rc": 1, "stderr": "site log: Invalid path"}])
def test_a_wrapper_that_fails_after_it_has_told_the_job_has_refused_nothing(chains, slurm, turn):
    slurm.plan("sbatch", turn | {"stdout": "{id}\n", "creates": True, "job": {"squeue": False, "sacct": False}})
    assert only(chains.submit()).kind is OutcomeKind.WAIT
    slurm.set(101, squeue=True)
    assert only(chains.submit(chains.look())).kind is OutcomeKind.ADOPTED


def test_a_name_that_reads_like_a_lost_answer_is_still_a_refusal(chains, slurm):
    slurm.plan("sbatch", {"rc": 1, "stderr": "sbatch: error: invalid partition specified: sockets-connect\n"})
    assert only(chains.submit()).kind is OutcomeKind.REFUSED


def test_tasks_of_a_run_call_sbatch_one_after_the_other(tmp_path, slurm):
    slurm.plan("sbatch", {"delay": 0.7}, always=True)
    single = [Chains(tmp_path / "out", slurm, name) for name in "abc"]
    at_once([one.submit for one in single])
    times = sorted(call["time"] for call in slurm.calls("sbatch"))
    assert len(times) == 3
    assert all(later - earlier >= 0.7 for earlier, later in itertools.pairwise(times))


def test_a_late_job_is_found_by_the_next_try(chains, slurm):
    slurm.plan(
        "sbatch", {"rc": 1, "stderr": "Socket timed out", "creates": True, "job": {"squeue": False, "sacct": False}}
    )
    assert only(chains.submit()).kind is OutcomeKind.WAIT
    slurm.set(101, squeue=True)
    assert only(chains.submit(chains.look())).kind is OutcomeKind.ADOPTED
    assert len(slurm.jobs) == 1


def test_a_late_job_that_has_ended_already_is_found_in_accounting(chains, slurm):
    ended = {"squeue": False, "state": "FAILED", "exit": "1:0", "sacct": False}
    slurm.plan("sbatch", {"rc": 1, "stderr": "Socket timed out", "creates": True, "job": ended})
    assert only(chains.submit()).kind is OutcomeKind.WAIT
    look = chains.look()
    slurm.set(101, sacct=True)
    assert only(chains.submit(look)).kind is OutcomeKind.CHANGED
    look = chains.look()
    assert look.chains["gpqa"].ids == ("101",)
    assert chains.decisions(look)["gpqa"].reason == "FAILED 1:0; retry 1 of 2"
    assert only(chains.submit(look)).job_id == "102"


@pytest.mark.parametrize("tool", ["squeue", "sacct"])
def test_nothing_is_sent_while_slurm_cannot_say_what_lives(chains, slurm, tool):
    slurm.plan("sbatch", {"rc": 1, "stderr": "Socket timed out", "creates": False})
    chains.submit()
    chains.age_intent()
    look = chains.look()
    slurm.plan(tool, {"rc": 1, "stderr": f"{tool}: error: Connection refused"}, always=True)
    assert only(chains.submit(look)).kind in (OutcomeKind.UNKNOWN, OutcomeKind.WAIT)
    assert chains.decisions(chains.look())["gpqa"].action is Action.WAIT
    assert not slurm.jobs


def test_a_site_without_accounting_is_asked_no_more_than_it_can_tell(chains, slurm):
    slurm.plan("sbatch", {"rc": 1, "stderr": "Socket timed out", "creates": False})
    chains.submit()
    chains.age_intent()
    slurm.plan("sacct", {"rc": 1, "stderr": "Slurm accounting storage is disabled"}, always=True)
    assert only(chains.submit(chains.look())).kind is OutcomeKind.SUBMITTED


def test_a_refusing_accounting_that_exits_zero_is_not_believed(chains, slurm):
    slurm.plan("sbatch", {"rc": 1, "stderr": "Socket timed out", "creates": False})
    chains.submit()
    chains.age_intent()
    slurm.plan("sacct", {"stderr": "sacct: error: Problem talking to the database"}, always=True)
    assert only(chains.submit()).kind is OutcomeKind.WAIT


@pytest.mark.parametrize("state", ["PENDING", "RUNNING", "COMPLETING", "SUSPENDED", "REQUEUE_HOLD", "BRAND_NEW_STATE"])
def test_a_live_job_is_adopted_and_never_doubled(chains, slurm, state):
    chains.submit()
    slurm.set(101, state=state, sacct=False)
    outcome = only(chains.submit(chains.look()))
    assert (outcome.kind, outcome.job_id) == (OutcomeKind.ADOPTED, "101")
    assert len(slurm.jobs) == 1


def test_a_job_requeued_under_its_id_is_alive_although_accounting_says_preempted(chains, slurm):
    chains.submit()
    slurm.set(101, state="PREEMPTED", squeue="PENDING")
    look = chains.look()
    assert chains.decisions(look)["gpqa"].action is Action.ADOPT
    assert only(chains.submit(look)).kind is OutcomeKind.ADOPTED


def test_an_unrecorded_live_job_is_recorded(chains, slurm):
    place = chains.places[0]
    slurm.add(name=place.job_name, dir=place.job_dir, state="RUNNING")
    look = chains.look()
    assert chains.decisions(look)["gpqa"].action is Action.ADOPT
    assert look.chains["gpqa"].found == ("101",)
    assert only(chains.submit(look)).kind is OutcomeKind.ADOPTED
    assert chains.file(".gym_job_chain") == "101\n"
    assert chains.record()["benchmarks"][0]["job_id"] == "101"


@pytest.mark.row("the worker dies or is shut down, anywhere")
@pytest.mark.parametrize("state", ["RUNNING", "COMPLETED"])
def test_a_job_that_is_found_hours_after_it_was_submitted_stays_the_chains(chains, slurm, state):
    slurm.plan("sbatch", {"rc": 1, "stderr": "Socket timed out", "creates": True, "job": {"squeue": False}})
    chains.submit()
    chains.age_intent(7200)
    slurm.set(101, state=state, submit=time.time() - 7200, squeue=state == "RUNNING")
    look = chains.look()
    assert look.chains["gpqa"].found == ("101",)
    chains.submit(look)
    job = chains.look().chains["gpqa"].jobs[0]
    assert job.ref.submitted_at == pytest.approx(time.time() - 7200, abs=60)
    assert (job.ref.job_id, job.known) == ("101", True), "it is not taken for an older one of its number"


@pytest.mark.parametrize("intent", [None, "soon 0 x", "99999999999 0 x"])
def test_where_nothing_tells_when_an_adopted_job_was_asked_for_no_date_is_made_up(chains, slurm, intent):
    chains.submit()
    slurm.set(101, state="TIMEOUT")
    if intent is not None:
        (chains.directory() / ".gym_intent").write_text(intent)
    slurm.add(name="gym-gpqa", dir=chains.places[0].job_dir, state="RUNNING", submit=time.time() - 7200)
    assert only(chains.submit(chains.look())).kind is OutcomeKind.ADOPTED
    job = chains.look().chains["gpqa"].jobs[-1]
    assert (job.ref.job_id, job.ref.submitted_at, job.live, job.known) == ("102", None, True, True)


def test_a_job_that_somebody_submitted_by_hand_is_adopted(chains, slurm):
    chains.submit()
    slurm.set(101, state="TIMEOUT")
    slurm.add(name="gym-gpqa", dir=chains.places[0].job_dir, state="PENDING")
    slurm.add(name="gym-gpqa", dir="/elsewhere", state="PENDING")
    outcome = only(chains.submit(chains.look()))
    assert (outcome.kind, outcome.job_id) == (OutcomeKind.ADOPTED, "102")
    assert chains.file(".gym_job_chain") == "101\n102\n"


def test_jobs_of_other_chains_are_not_ours(chains, slurm):
    slurm.add(name=chains.places[0].job_name + "x", dir=chains.places[0].job_dir, state="RUNNING")
    slurm.add(name="a\x1fb", state="RUNNING")
    assert only(chains.submit(chains.look())).kind is OutcomeKind.SUBMITTED


def test_a_job_of_our_name_in_another_chains_directory_is_neither_taken_up_nor_cancelled_nor_judged(chains, slurm):
    # 32 bits of a name are soon found by who may choose a run's id; or the run was deleted, and made again later
    elsewhere = "/other/gym-job-20260131T080510Z-012345/gpqa"
    ended = slurm.add(name=chains.places[0].job_name, dir=elsewhere, state="FAILED", squeue=False)
    running = slurm.add(name=chains.places[0].job_name, dir=elsewhere, state="RUNNING")
    look = chains.look()
    assert look.chains["gpqa"].found == ()
    slurm.plan("sbatch", {"rc": 1, "stderr": "sbatch: error: Socket timed out on send/recv operation"})
    assert only(chains.submit(look)).kind is OutcomeKind.WAIT, "neither is what an unclear sbatch has made"
    chains.age_intent()
    outcome = only(chains.submit(chains.look()))
    assert (outcome.kind, chains.look().chains["gpqa"].ids) == (OutcomeKind.SUBMITTED, (outcome.job_id,))
    assert outcome.job_id not in (str(ended), str(running))
    slurm.set(int(outcome.job_id), state="COMPLETED")
    assert chains.cancel()["gpqa"].cancelled == ()
    assert slurm.live == [running]


def test_a_job_of_ours_is_found_under_whatever_way_slurm_knows_to_its_directory(chains, slurm):
    name = f"/net/disk{chains.places[0].job_dir}"
    job_id = slurm.add(name=chains.places[0].job_name, dir=name, state="RUNNING")
    assert chains.look().chains["gpqa"].found == (str(job_id),)
    assert only(chains.submit(chains.look())).kind is OutcomeKind.ADOPTED


def test_an_ended_job_found_unrecorded_is_recorded_before_the_next(chains, slurm):
    place = chains.places[0]
    chains.submit()
    slurm.set(101, state="TIMEOUT")
    slurm.add(name=place.job_name, dir=place.job_dir, state="TIMEOUT", squeue=False)
    look = chains.look()
    assert look.chains["gpqa"].found == ("102",)
    outcome = only(chains.submit(look))
    assert (outcome.kind, outcome.job_id) == (OutcomeKind.SUBMITTED, "103")
    assert chains.file(".gym_job_chain") == "101\n102\n103\n"


@pytest.mark.parametrize("cluster", [None, "c2"])
def test_what_is_wanted_once_is_not_queued_again_when_its_unrecorded_job_has_ended(chains, slurm, cluster):
    clusters = [cluster] if cluster else []
    chains.submit()
    (chains.directory() / ".gym_job_chain").unlink()  # killed between sbatch and the record
    (chains.directory() / ".gym_jobs").unlink()
    slurm.set(101, state="COMPLETED", cluster=cluster or "c1")
    (chains.directory() / ".gym_intent").write_text(f"{int(time.time())} 0 x\n")
    look = chains.look(clusters=clusters)
    assert look.chains["gpqa"].found == ((f"101;{cluster}" if cluster else "101"),)
    for _ in range(2):
        outcome = only(chains.submit(look, changes={"once": True}, clusters=clusters))
        assert (outcome.kind, outcome.job_id, outcome.cluster) == (OutcomeKind.ADOPTED, "101", cluster)
        look = chains.look(clusters=clusters)
    assert (chains.file(".gym_job_chain"), len(slurm.jobs)) == ("101\n", 1)
    assert not (chains.directory() / ".gym_intent").exists()


def test_the_counters_of_a_job_that_is_found_are_those_of_the_jobs_before_it(chains, slurm):
    counters = {"used": 70, "retries": 2, "before": (30, 1)}
    chains.submit()
    slurm.set(101, state="TIMEOUT")
    slurm.add(name="gym-gpqa", dir=chains.places[0].job_dir, state="RUNNING")
    look = chains.look()
    assert look.chains["gpqa"].found == ("102",)
    assert only(chains.submit(look, changes=counters)).kind is OutcomeKind.ADOPTED
    assert (chains.file(".gym_accumulated_walltime"), chains.file(".gym_infra_retries")) == ("30\n", "1\n")
    slurm.set(102, state="TIMEOUT")
    slurm.add(name=chains.places[0].job_name, dir=chains.places[0].job_dir, state="FAILED", squeue=False)
    slurm.plan("sbatch", {"rc": 127}, {})
    assert only(chains.submit(chains.look(), changes=counters)).kind is OutcomeKind.REFUSED
    assert chains.file(".gym_accumulated_walltime") == "30\n", "the newest is the one that was found"
    assert only(chains.submit(chains.look(), changes=counters)).kind is OutcomeKind.SUBMITTED
    assert (chains.file(".gym_accumulated_walltime"), chains.file(".gym_infra_retries")) == ("70\n", "2\n")


def test_a_job_that_nobody_had_seen_comes_after_all_that_were_counted(chains, slurm):
    look = chains.look()
    slurm.add(name=chains.places[0].job_name, dir=chains.places[0].job_dir, state="RUNNING")
    assert only(chains.submit(look, changes={"used": 70, "before": (30, 1)})).kind is OutcomeKind.ADOPTED
    assert chains.file(".gym_accumulated_walltime") == "70\n"


def test_what_is_wanted_once_is_queued_where_the_chain_names_no_job(chains, slurm):
    slurm.plan("sbatch", {"rc": 127})
    assert only(chains.submit(changes={"once": True})).kind is OutcomeKind.REFUSED
    (chains.directory() / ".gym_job_chain").write_text("none yet\n")
    outcome = only(chains.submit(chains.look(), changes={"once": True}))
    assert (outcome.kind, outcome.job_id) == (OutcomeKind.SUBMITTED, "101")


def test_the_script_refuses_when_the_chain_is_no_longer_what_was_seen(chains, slurm):
    before = chains.look()
    chains.submit(before)
    slurm.set(101, state="TIMEOUT")
    assert only(chains.submit(before)).kind is OutcomeKind.CHANGED
    after = chains.look()
    chains.cancel()
    assert only(chains.submit(after)).kind is OutcomeKind.CHANGED
    assert len(slurm.jobs) == 1


def test_two_submitters_at_once_make_one_job(chains, slurm):
    slurm.plan("sbatch", {"delay": 0.5}, {"delay": 0.5})
    look = chains.look()
    kinds = at_once([lambda: only(chains.submit(look)).kind] * 3)
    assert len(slurm.jobs) == 1
    assert sorted(kinds) == [OutcomeKind.CHANGED, OutcomeKind.CHANGED, OutcomeKind.SUBMITTED]


def test_twenty_tasks_at_once_lose_nothing_in_the_record(tmp_path, slurm):
    names = [f"b{number:02}" for number in range(20)]
    everything = Chains(tmp_path / "out", slurm, *names)
    single = []
    for name in names:
        one = Chains(tmp_path / "out", slurm, name)
        one.benchmarks = tuple(names)
        one.timing = replace(one.timing, lock=60)
        single.append(one)
    at_once([one.submit for one in single])
    assert [entry["benchmark"] for entry in everything.record()["benchmarks"]] == names
    assert all(entry["job_id"] for entry in everything.record()["benchmarks"])
    assert len(slurm.jobs) == 20


def test_missing_mounts_are_all_listed_and_nothing_is_copied(chains, slurm, tmp_path):
    there = tmp_path / "it's $HERE"
    there.mkdir()
    mounts = [("services.a.mounts[0]", "/no/such"), ("driver.mounts[0]", str(there)), ("driver.mounts[1]", "/no'pe")]
    report = chains.submit(mounts=mounts)
    assert report.missing_mounts == (mounts[0], mounts[2])
    assert not report.outcomes
    assert not Path(chains.run_dir).exists()
    assert not slurm.calls("sbatch")


def test_a_directory_of_another_run_is_never_touched(tmp_path, chains, slurm):
    chains.submit()
    before = text_of(Path(chains.run_dir))
    thief = Chains(tmp_path / "out", slurm, "gpqa", key=ChainKey("other", "x", "y"))
    thief.run_dir, thief.places = chains.run_dir, chains.places
    for attempt in (thief.look, thief.submit):
        with pytest.raises(ForeignDirectoryError, match="nightly"):
            attempt()
    assert text_of(Path(chains.run_dir)) == before


def test_a_directory_that_nobody_of_us_made_is_never_touched(chains):
    stranger = Path(chains.run_dir, "notes.txt")
    stranger.parent.mkdir(parents=True)
    stranger.write_text("mine")
    for attempt in (chains.look, chains.submit):
        with pytest.raises(ForeignDirectoryError, match="not made by this provider"):
            attempt()
    assert text_of(Path(chains.run_dir)).strip() == "mine"


def anothers(path: Path) -> Path:
    """A directory of another user's. Without root, who may give one away, it is a link to one that is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if os.geteuid() == 0:
        path.mkdir()
        path.chmod(0o777)
        os.chown(path, 65534, 65534)
    else:
        path.symlink_to("/usr")
    return path


def test_a_directory_that_another_user_has_made_before_us_is_neither_read_nor_written(chains, slurm):
    run = anothers(Path(chains.run_dir))
    if os.geteuid() == 0:  # whose directory it will be is no secret
        (run / ".gym_owner").write_text(f"{chains.key.owner()}\n")
    before = sorted(run.iterdir())
    for attempt in (chains.look, chains.submit):
        with pytest.raises(ForeignDirectoryError, match=r"belongs to another user of the cluster, .*job\.output_path"):
            attempt()
    assert sorted(run.iterdir()) == before
    assert not slurm.calls("sbatch")
    if os.geteuid() == 0:
        assert chains.look(anybodys=True).exists, "it can be shown to people"


def test_neither_is_what_a_link_of_another_user_leads_to(chains, slurm, tmp_path):
    run, place = Path(chains.run_dir), tmp_path / "ours"
    run.parent.mkdir()
    place.mkdir()
    run.symlink_to(place)
    assert not chains.look().exists, "a link of our own is our own affair"
    os.lchown(run, *((65534, 65534) if os.geteuid() == 0 else (-1, -1)))
    if os.geteuid() != 0:
        run.unlink()
        anothers(run)
    with pytest.raises(ForeignDirectoryError, match="another user"):
        chains.submit()
    assert list(place.iterdir()) == []


def test_no_job_script_is_queued_from_a_benchmarks_directory_that_is_anothers(chains, slurm):
    Path(chains.run_dir).mkdir(parents=True)
    chains.submit(changes={"place": replace(chains.places[0], job_dir=f"{chains.run_dir}/other")})
    anothers(chains.directory())
    outcome = only(chains.submit())
    assert (outcome.kind, "another user of the cluster" in outcome.text) == (OutcomeKind.FAILED, True)
    assert len(slurm.jobs) == 1


def test_no_job_script_is_queued_from_a_directory_that_was_exchanged_after_it_was_written(chains, slurm, tmp_path):
    evil = anothers(tmp_path / "evil")
    spies = tmp_path / "spies"
    spies.mkdir()
    exchange = f"mv {quote(str(chains.directory()))} {quote(str(tmp_path / 'gone'))}; mv {evil} {chains.directory()}"
    # the last that is done before the call: waiting for the run's turn
    (spies / "flock").write_text(
        f'#!/bin/bash\n[ "${{@: -1}}" != 6 ] || {{ {exchange}; }}\nexec {shutil.which("flock")} "$@"\n'
    )
    (spies / "flock").chmod(0o755)
    if os.geteuid() == 0:
        (evil / "job.sh").write_text("#!/bin/bash\ntouch pwned\n")
    chains.environ["PATH"] = f"{spies}:{slurm.environ['PATH']}"
    assert only(chains.submit()).kind is not OutcomeKind.SUBMITTED
    assert (slurm.jobs, slurm.calls("sbatch")) == ([], [])


def test_a_file_server_that_calls_our_files_anothers_is_taken_by_its_word(chains, slurm, tmp_path):
    said = tmp_path / "said"
    said.mkdir()
    script = f'{(SCRIPTS / "common.sh").read_text()}\ngym_own {quote(str(said))} && echo ours || echo "$gym_stranger"\n'
    as_all = script.replace("[ -O ", "[ ! -e ")  # as root is not the owner there
    ours = subprocess.run(["bash", "-s"], input=f"_gym_nonce=x\n{as_all}", text=True, capture_output=True, check=True)
    assert (ours.stdout, list(said.iterdir())) == ("ours\n", [])


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o2775])
def test_a_directory_that_an_access_list_gave_to_a_group_is_taken_back_before_a_job_script_lies_in_it(chains, mode):
    for folder in (Path(chains.run_dir), chains.directory()):
        folder.mkdir(parents=True)
        folder.chmod(mode)
        Path(chains.run_dir, ".gym_owner").write_text(f"{chains.key.owner()}\n")
    chains.submit(chains.look())
    assert [folder.stat().st_mode & 0o022 for folder in (Path(chains.run_dir), chains.directory())] == [0, 0]


def test_an_empty_directory_left_by_a_killed_try_is_taken(chains):
    Path(chains.run_dir).mkdir(parents=True)
    Path(chains.run_dir, ".gym_run.lock").touch()
    assert not chains.look().exists
    assert only(chains.submit()).kind is OutcomeKind.SUBMITTED


def test_the_records_head_is_that_of_the_first_submission(chains, slurm):
    chains.submit()
    slurm.set(101, state="TIMEOUT")
    files = chains.files()
    chains.files = lambda: replace(files, head=replace(files.head, submitted_at="2027-01-01T00:00:00Z"))
    chains.submit(chains.look())
    assert chains.record()["submitted_at"] == "2026-01-31T08:05:09Z"
    assert chains.record()["benchmarks"][0]["job_id"] == "102"


@pytest.mark.parametrize("folder", ['my runs/$HOME/"q"', "a'; touch pwned; '", "ünï", "-n", "a|b", "*", "\\n"])
def test_odd_paths_hold(tmp_path, slurm, folder):
    odd = Chains(tmp_path / folder, slurm, "gpqa")
    assert only(odd.submit(odd.look())).kind is OutcomeKind.SUBMITTED
    assert slurm.jobs[0]["dir"] == odd.places[0].job_dir
    assert only(odd.submit(odd.look())).kind is OutcomeKind.ADOPTED
    assert odd.cancel()["gpqa"].cancelled == ("101",)
    assert not Path("pwned").exists()
