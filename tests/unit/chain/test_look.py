"""One look tells everything a decision needs, and takes nothing for known that is not."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from fakes.chains import Chains

from airflow_gym_provider.chain import (
    Action,
    ChainError,
    CutOffError,
    SlurmNotFoundError,
    StagedFile,
    counters_script,
    read_look,
)
from airflow_gym_provider.chain.evidence import known_job
from airflow_gym_provider.chain.place import ASKED_FILE, TASK_FILE
from airflow_gym_provider.jobscript.run import ResultsSpec
from airflow_gym_provider.slurm.jobs import JobRef
from airflow_gym_provider.slurm.remote import Answer, RemoteScript
from airflow_gym_provider.slurm.states import Ending


def test_whose_the_jobs_of_a_directory_are_that_tasks_share_is_told(chains):
    asked_by = (StagedFile("job.sh", "true\n", 0o600), StagedFile(TASK_FILE, "evals.eval[0]"))
    assert chains.look().chains["gpqa"].task == ""
    chains.submit(changes={"files": asked_by})
    chains.submit(changes={"files": (StagedFile(TASK_FILE, "evals.eval[1]"),)})  # its job lives: nothing is written
    assert chains.look().chains["gpqa"].task == "evals.eval[0]"


def test_what_the_last_job_was_asked_for_is_told_to_those_who_may_read_it(chains):
    asked = (StagedFile("job.sh", "true\n", 0o600), StagedFile(ASKED_FILE, '{"models": "m"}\n', 0o600))
    chains.submit(changes={"files": asked})
    assert (chains.look().chains["gpqa"].asked, chains.look().chains["gpqa"].task) == ('{"models": "m"}', "")
    (chains.directory() / ASKED_FILE).unlink()
    (chains.directory() / ASKED_FILE).symlink_to("/no/such/file")  # as unreadable as another user's
    assert chains.look().chains["gpqa"].asked == ""


def test_where_nothing_is_accounting_is_not_asked_and_nothing_is_written(chains, slurm):
    look = chains.look()
    assert (look.exists, look.chains["gpqa"].jobs, look.problems) == (False, (), ())
    assert not slurm.calls("sacct")
    assert not Path(chains.run_dir).exists()


def test_of_a_job_whose_cluster_was_not_asked_nothing_is_known():
    status = known_job(JobRef("60", cluster="c9"), [])
    assert (status.ref, status.known, status.ending) == (JobRef("60", cluster="c9"), False, None)


def test_many_benchmarks_cost_as_many_questions_as_one(tmp_path, slurm):
    many = Chains(tmp_path / "out", slurm, *[f"b{number:02}" for number in range(20)])
    many.submit()
    before = len(slurm.calls("squeue"))
    look = many.look()
    assert (len(slurm.calls("squeue")) - before, len(slurm.calls("sacct"))) == (1, 2)
    assert [chain.ids for chain in look.chains.values()] == [(str(number),) for number in range(101, 121)]


def test_how_jobs_ended_and_ran_is_told_of_each(chains, slurm):
    chains.submit()
    slurm.set(101, state="TIMEOUT", elapsed=62, squeue=False)
    chains.submit(chains.look(), changes={"used": 62})
    slurm.set(102, state="CANCELLED by 1000", elapsed=33, squeue=False)
    look = chains.look()
    one, two = look.chains["gpqa"].jobs
    assert (one.ending, one.elapsed, two.ending, two.cancelled_by) == (Ending.TIMEOUT, 62, Ending.CANCELLED, 1000)
    assert look.chains["gpqa"].recorded_walltime == 62
    assert chains.decisions(look)["gpqa"].used == 95


def test_a_job_not_yet_in_accounting_is_alive_in_squeue(chains, slurm):
    chains.submit()
    slurm.set(101, sacct=False)
    assert chains.decisions(chains.look())["gpqa"].action is Action.ADOPT


@pytest.mark.parametrize("tool", ["squeue", "sacct"])
def test_an_outage_makes_jobs_unknown_and_is_told(chains, slurm, tool):
    chains.submit()
    slurm.set(101, state="TIMEOUT", squeue=False)
    slurm.plan(
        tool, {"rc": 1, "stderr": f"{tool}: error: Problem talking to the database: Connection refused"}, always=True
    )
    look = chains.look()
    assert (look.squeue_ok, look.sacct_ok) == (tool != "squeue", tool != "sacct")
    assert "Connection refused" in look.problems[0]
    assert chains.decisions(look)["gpqa"].action is Action.WAIT


def test_a_job_that_nobody_knows_is_missing(chains, slurm):
    chains.submit()
    slurm.set(101, squeue=False, sacct=False)
    chain = chains.look().chains["gpqa"]
    assert chain.jobs[0].missing
    assert chain.history(unknown_for=61).lost


def test_jobs_of_another_cluster_are_asked_about_there(chains, slurm):
    slurm.plan("sbatch", {"stdout": "{id};c2\n", "job": {"cluster": "c2"}})
    chains.submit()
    look = chains.look()
    assert look.chains["gpqa"].jobs[0].ref.cluster == "c2"
    entry = {"benchmark": "gpqa", "job_dir": chains.places[0].job_dir, "job_id": "101", "error": None}
    assert chains.record()["benchmarks"] == [entry | {"slurm_cluster": "c2"}]
    assert chains.decisions(look)["gpqa"].action is Action.ADOPT
    for call in slurm.calls("sacct"):
        assert "--clusters=c2" in call["argv"] or not [word for word in call["argv"] if "101" in word]
    (outcome,) = chains.submit(look, clusters=("c2",)).outcomes.values()
    assert (outcome.kind, outcome.cluster) == ("adopted", "c2")
    assert len(slurm.jobs) == 1


def test_a_federation_that_names_its_own_cluster_shows_no_job_twice(chains, slurm):
    slurm.plan("sbatch", {"stdout": "{id};c1\n"})
    chains.submit()
    assert [job.ref.key for job in chains.look(clusters=("c1",)).chains["gpqa"].jobs] == ["101;c1"]


def test_further_clusters_are_looked_at_for_unrecorded_jobs(chains, slurm):
    place = chains.places[0]
    chains.submit()
    slurm.set(101, state="TIMEOUT")
    slurm.add(name=place.job_name, dir=place.job_dir, state="RUNNING", cluster="c2")
    look = chains.look(clusters=("c2",))
    assert look.chains["gpqa"].found == ("102;c2",)
    chains.submit(look, clusters=("c2",))
    assert chains.file(".gym_jobs").splitlines()[1].split()[:2] == ["102", "c2"]


def test_results_are_surveyed(chains):
    spec = ResultsSpec(f"{chains.places[0].job_dir}/artifacts/rollouts.jsonl", True, "rollouts")
    chains.places = [replace(chains.places[0], results=spec)]
    assert chains.look().chains["gpqa"].survey is None
    chains.submit()
    (chains.directory() / "artifacts/rollouts.jsonl").write_text('{"a": 1}\n{"a": 2}\n{"ha')
    (chains.directory() / "artifacts/rollouts_materialized_inputs.jsonl").write_text("{}\n" * 4)
    survey = chains.look().chains["gpqa"].survey
    assert survey is not None
    assert (survey.done, survey.expected, survey.answered) == (2, 4, True)


def test_dot_files_that_people_touched_are_read_as_far_as_they_go(chains, slurm):
    chains.submit()
    (chains.directory() / ".gym_job_chain").write_text("101\r\n\nnonsense\n101\n102;c1\n")
    (chains.directory() / ".gym_jobs").write_text("101 - soon\nhalf\n")
    (chains.directory() / ".gym_accumulated_walltime").write_text("many\n")
    (chains.directory() / ".gym_cancelled").write_text("x\n17 101,y late night\n18")
    chain = chains.look().chains["gpqa"]
    assert chain.ids == ("101", "102")
    assert chain.recorded_walltime == 0
    assert [(mark.at, mark.jobs, mark.why) for mark in chain.marks] == [(17, ("101",), "late night"), (18, (), "")]
    (outcome,) = chains.submit(chains.look()).outcomes.values()
    assert outcome.kind == "adopted"


@pytest.mark.parametrize("text", ["", "soon", "12 x", "99999999999999 1 x", "99999999999 1 x"])
def test_an_intent_that_cannot_be_read_is_as_old_as_its_file(chains, slurm, text):
    chains.submit()
    slurm.set(101, state="TIMEOUT")
    intent = chains.directory() / ".gym_intent"
    intent.write_text(text)
    look = chains.look()
    assert 0 < look.chains["gpqa"].wait <= 30
    (outcome,) = chains.submit(look).outcomes.values()
    assert outcome.kind == "wait"
    for path in (intent, chains.directory() / ".gym_sbatch.lock"):
        os.utime(path, (1e9, 1e9))
    look = chains.look()
    assert look.chains["gpqa"].wait is None
    (outcome,) = chains.submit(look).outcomes.values()
    assert outcome.kind == "submitted"


def test_an_intent_of_a_login_node_whose_clock_is_behind_is_no_older_than_its_file(chains, slurm):
    chains.submit()
    slurm.set(101, state="TIMEOUT")
    intent = chains.directory() / ".gym_intent"
    intent.write_text(f"{int(time.time()) - 600} 1 x\n")
    os.utime(chains.directory() / ".gym_sbatch.lock", (1e9, 1e9))
    look = chains.look()
    assert 0 < look.chains["gpqa"].wait <= 30
    (outcome,) = chains.submit(look).outcomes.values()
    assert (outcome.kind, len(slurm.jobs)) == ("wait", 1)


def test_a_file_that_cannot_be_read_is_no_empty_one(chains, slurm):
    chains.submit()
    (chains.directory() / ".gym_job_chain").unlink()
    (chains.directory() / ".gym_job_chain").mkdir()
    with pytest.raises(ChainError, match=r"gym_job_chain.*directory"):
        chains.look()
    (outcome,) = chains.submit().outcomes.values()
    assert outcome.kind == "failed"
    assert "gym_job_chain" in outcome.text
    assert len(slurm.jobs) == 1


def test_an_owner_file_that_cannot_be_read_is_an_error(chains):
    chains.submit()
    Path(chains.run_dir, ".gym_owner").unlink()
    Path(chains.run_dir, ".gym_owner").mkdir()
    for attempt in (chains.look, chains.submit):
        with pytest.raises(ChainError, match="gym_owner"):
            attempt()


def test_a_record_left_behind_by_a_kill_is_made_good(chains):
    chains.submit()
    path = Path(chains.run_dir, "gym-job.json")
    path.write_text("{")
    os.utime(path, (0, 0))
    chains.look()
    assert chains.record()["benchmarks"][0]["job_id"] == "101"
    stamp = path.stat().st_mtime_ns
    time.sleep(0.01)
    chains.look()
    assert path.stat().st_mtime_ns == stamp


def test_a_cut_answer_is_an_error_that_trying_again_cures(chains):
    script = chains.look_script()
    answer = chains.run(script)
    whole = read_look(script, answer, chains.places)
    for share in (0, 0.3, 0.9):
        said = "bash: line 7: export HF_TOKEN=canary-1: unexpected end"
        cut = replace(answer, stdout=answer.stdout[: int(len(answer.stdout) * share)], stderr=said, returncode=-1)
        with pytest.raises(CutOffError, match="ended early") as caught:
            read_look(script, cut, chains.places)
        assert "canary" not in str(caught.value)
    noisy = replace(answer, stdout=f"Welcome!\n{answer.stdout}\nBye.\n")
    assert read_look(script, noisy, chains.places) == whole


def test_no_slurm_says_which_setting_to_change(chains, tmp_path):
    script = chains.look_script(slurm_bin=str(tmp_path / "none"))
    answer = chains.run(script, {"PATH": "/usr/bin:/bin"})
    if not Path("/usr/bin/squeue").exists():
        with pytest.raises(SlurmNotFoundError, match="slurm_bin"):
            read_look(script, answer, chains.places)
    error = RemoteScript("", "0" * 16)
    text = f"\n@@{error.nonce} error no-slurm\nSlurm is not there: set slurm_bin\n\n@@{error.nonce} end 127\n"
    with pytest.raises(SlurmNotFoundError, match="slurm_bin"):
        read_look(error, Answer(127, text, ""), chains.places)


def test_the_counters_can_be_made_final(chains):
    chains.submit()
    chains.run(counters_script(chains.places[0], 4242, 2))
    assert (chains.file(".gym_accumulated_walltime"), chains.file(".gym_infra_retries")) == ("4242\n", "2\n")


def test_an_error_of_any_bytes_stays_json(chains, slurm):
    slurm.plan("sbatch", {"rc": 1, "stderr": 'sbatch: error: Invalid "x"\\\t\x01\x1b[31m\n\udcff ü & end'})
    slurm_errors = {"PYTHONIOENCODING": "utf-8:surrogateescape"}
    chains.environ = slurm_errors
    chains.submit()
    text = Path(chains.run_dir, "gym-job.json").read_text()
    assert json.loads(text)["benchmarks"][0]["error"].startswith('sbatch: error: Invalid "x"\\ [31m\n')
