"""A cancel ends what lives of a chain, leaves its mark, and never raises."""

from __future__ import annotations

import os
import threading
import time

import pytest
from fakes.chains import Chains

from airflow_gym_provider.chain import Action, cancel_script, read_cancel
from airflow_gym_provider.slurm.remote import Answer


def test_a_known_job_takes_one_scancel_and_that_comes_first(chains, slurm):
    chains.submit()
    before = len(slurm.calls("squeue"))
    report = chains.cancel("marked failed", job_ids={"gpqa": ["101"]}, quick=True)["gpqa"]
    assert (report.cancelled, report.text) == (("101",), "cancelled job 101")
    assert not slurm.live
    (scancel,) = slurm.calls("scancel")
    assert scancel["argv"] == ["101"]
    (squeue,) = slurm.calls("squeue")[before:]
    assert scancel["time"] < squeue["time"]


def test_a_cancel_of_ours_is_known_as_such_later(chains, slurm):
    chains.submit()
    chains.cancel("execution_timeout of\n2 h")
    slurm.set(101, squeue=False)
    decision = chains.decisions(chains.look())["gpqa"]
    assert decision.action is Action.SUBMIT
    assert "on our request (execution_timeout of 2 h)" in decision.reason


def test_the_chains_last_job_is_found_without_being_told(chains, slurm):
    chains.submit()
    slurm.set(101, state="TIMEOUT")
    chains.submit(chains.look())
    assert chains.cancel()["gpqa"].cancelled == ("102",)


def test_an_unrecorded_job_is_found_by_name(chains, slurm):
    place = chains.places[0]
    slurm.add(name=place.job_name, dir=place.job_dir, state="RUNNING")
    slurm.add(name="gym-gpqa", dir="/elsewhere", state="RUNNING")
    assert chains.cancel(quick=True)["gpqa"].cancelled == ("101",)
    assert slurm.live == [102]


def test_a_job_that_had_ended_is_said_to_have(chains, slurm):
    chains.submit()
    slurm.set(101, state="COMPLETED")
    report = chains.cancel(job_ids={"gpqa": ["101"]})["gpqa"]
    assert (report.cancelled, report.ended) == ((), ("101",))
    assert report.text == "job 101 had already ended"


def test_a_successor_does_not_slip_through(chains, slurm):
    chains.submit()
    place = chains.places[0]

    def later():
        time.sleep(1.5)
        slurm.add(name=place.job_name, dir=place.job_dir, state="PENDING")

    slurm.set(101, state="RUNNING")
    slurm.plan("scancel", {"delay": 2})
    thread = threading.Thread(target=later)
    thread.start()
    report = chains.cancel()["gpqa"]
    thread.join()
    assert report.cancelled == ("101", "102")
    assert not slurm.live


def test_a_job_that_does_not_go_is_told(chains, slurm):
    chains.submit()
    slurm.set(101, squeue="RUNNING")
    report = chains.cancel(quick=True)["gpqa"]
    assert report.left == ("101",)
    assert "still there" in report.text


def test_a_job_that_is_completing_is_gone(chains, slurm):
    chains.submit()
    slurm.set(101, squeue="COMPLETING")
    assert chains.cancel()["gpqa"].left == ()


def test_several_chains_go_together(tmp_path, slurm):
    many = Chains(tmp_path / "out", slurm, "a", "b", "c")
    many.submit()
    assert [report.cancelled for report in many.cancel(quick=True).values()] == [("101",), ("102",), ("103",)]


def test_each_job_is_cancelled_where_it_runs(chains, slurm):
    slurm.plan("sbatch", {"stdout": "{id};c2\n", "job": {"cluster": "c2"}})
    chains.submit()
    assert chains.cancel(clusters=("c2",), quick=True)["gpqa"].cancelled == ("101",)
    assert slurm.calls("scancel")[0]["argv"] == ["--clusters=c2", "101"]
    chains.cancel(job_ids={"gpqa": ["9;c3"]}, quick=True)
    assert slurm.calls("scancel")[1]["argv"] == ["--clusters=c3", "9"]


def test_without_a_directory_or_a_job_there_is_nothing_to_do(chains):
    assert chains.cancel(quick=True)["gpqa"].text == "no job was found to cancel"


def test_while_squeue_is_silent_the_known_job_is_cancelled_all_the_same(chains, slurm):
    chains.submit()
    slurm.plan("squeue", {"rc": 1, "stderr": "slurm_load_jobs error: Unable to contact slurm controller"}, always=True)
    report = chains.cancel(quick=True)["gpqa"]
    assert report.cancelled == ("101",)
    assert "Unable to contact" in report.text
    assert not slurm.live


def test_while_squeue_is_silent_an_unknown_job_is_cancelled_by_name(chains, slurm):
    place = chains.places[0]
    slurm.add(name=place.job_name, dir=place.job_dir, state="RUNNING")
    slurm.plan("squeue", {"rc": 1, "stderr": "down"}, always=True)
    chains.cancel(quick=True)
    assert not slurm.live


def test_a_refusal_is_reported_not_raised(chains, slurm):
    chains.submit()
    slurm.plan("scancel", {"rc": 1, "stderr": "scancel: error: Access/permission denied\n"})
    report = chains.cancel(quick=True)["gpqa"]
    assert report.cancelled == ()
    assert "permission denied" in report.trouble


@pytest.mark.parametrize("text", ["", "garbage", "@@x left 0\n"])
def test_an_answer_that_never_came_is_reported_not_raised(chains, text):
    script = cancel_script(chains.places, "x")
    assert read_cancel(script, Answer(-1, text, ""), chains.places)["gpqa"].text == "the answer was cut off"


@pytest.mark.parametrize("word", ["", "x", "1 2", "$(touch x)", "1;a b"])
def test_what_is_no_job_id_is_refused(chains, word):
    with pytest.raises(ValueError, match=r"job id|cluster name"):
        cancel_script(chains.places, "x", job_ids={"gpqa": [word]})


def test_no_job_that_another_users_directory_names_is_cancelled(chains, slurm):
    other = slurm.add(name="training", state="RUNNING")
    chains.directory().mkdir(parents=True)
    (chains.directory() / ".gym_job_chain").write_text(f"{other}\n")
    assert chains.cancel()["gpqa"].cancelled == (str(other),), "what we wrote there is believed"
    slurm.set(other, state="RUNNING")
    if os.geteuid() == 0:
        os.chown(chains.directory(), 65534, 65534)
    else:
        chains.directory().rename(chains.directory().with_name("away"))
        chains.directory().symlink_to("/usr")
    assert chains.cancel()["gpqa"].cancelled == ()
    assert slurm.live == [other]
