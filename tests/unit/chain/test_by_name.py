"""Accounting's answer by name may be long in coming, or refused for ever: it is needed for what was cut off alone."""

from __future__ import annotations

import calendar
import time

import pytest
from fakes.chains import age

from airflow_gym_provider.chain import Action, OutcomeKind
from airflow_gym_provider.slurm.states import Ending

LOST = {"rc": 1, "stderr": "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation\n"}
TOO_WIDE = "sacct: error: slurmdbd: Too wide of a date range in query\n"
DAY = 86400


def only(report):
    (outcome,) = report.outcomes.values()
    return outcome


def starts(slurm, since: int) -> list[float]:
    """How many days before now each question by name began, of those after the first `since`."""
    words = [word for call in slurm.calls("sacct")[since:] for word in call["argv"] if word.startswith("--starttime=")]
    stamps = [calendar.timegm(time.strptime(word, "--starttime=%Y-%m-%dT%H:%M:%S")) for word in words]
    return [round((time.time() - stamp) / DAY, 1) for stamp in stamps]


@pytest.mark.parametrize(
    "trouble", [{"rc": 91, "stderr": TOO_WIDE}, {"rc": 1, "stderr": "sacct: error: Connection refused"}, {"delay": 9}]
)
def test_an_end_that_is_known_by_its_id_is_known(chains, slurm, trouble):
    chains.submit()
    slurm.set(101, state="TIMEOUT", squeue=False)
    slurm.plan("sacct", trouble | {"only": "--name="}, always=True)
    look = chains.look()
    (job,) = look.chains["gpqa"].jobs
    assert (job.known, job.ending) == (True, Ending.TIMEOUT)
    assert chains.decisions(look)["gpqa"].action is Action.SUBMIT
    assert (len(look.problems), look.sacct_ok) == (1, False)
    assert only(chains.submit(look)).kind is OutcomeKind.SUBMITTED


def test_after_a_submission_that_was_cut_off_it_is_waited_for(chains, slurm):
    slurm.plan("sbatch", LOST, {})
    chains.submit()
    chains.age_intent()
    slurm.plan("sacct", {"rc": 1, "stderr": "sacct: error: Connection refused", "only": "--name="}, always=True)
    look = chains.look()
    assert chains.decisions(look)["gpqa"].action is Action.WAIT
    assert only(chains.submit(look)).kind is OutcomeKind.WAIT
    assert not slurm.jobs


def test_an_unrecorded_end_in_the_queue_waits_for_accounting_by_name(chains, slurm):
    """Of a job that was not asked for by its id, that alone tells how it ended."""
    place = chains.places[0]
    chains.submit()
    slurm.set(101, state="TIMEOUT", squeue=False)
    slurm.add(name=place.job_name, dir=place.job_dir, state="FAILED", exit="1:0")
    slurm.plan("sacct", {"rc": 1, "stderr": "sacct: error: Connection refused", "only": "--name="}, always=True)
    look = chains.look()
    assert [job.known for job in look.chains["gpqa"].jobs] == [True, False]
    assert chains.decisions(look)["gpqa"].action is Action.WAIT


@pytest.mark.parametrize(
    ("range_", "asked"),
    [(400, [100.0]), (50, [100.0, 30.0]), (7, [100.0, 30.0, 7.0]), (1, [100.0, 30.0, 7.0, 1.0])],
)
def test_a_range_that_slurmdbd_refuses_is_made_shorter(chains, slurm, range_, asked):
    chains.submit()
    slurm.set(101, state="TIMEOUT", squeue=False)
    age(chains.directory().parent / ".gym_owner", time.time() - 100 * DAY)
    slurm.limit_range(range_ * DAY)
    look = chains.look()
    assert starts(slurm, 0) == asked
    assert (look.problems, chains.decisions(look)["gpqa"].action) == ((), Action.SUBMIT)


def test_a_range_that_is_too_long_however_short_is_trouble(chains, slurm):
    chains.submit()
    age(chains.directory().parent / ".gym_owner", time.time() - 5 * DAY)
    slurm.limit_range(3600)
    look = chains.look()
    assert starts(slurm, 0) == [5.0, 1.0], "nothing is asked twice"
    assert look.problems == ("sacct: slurmdbd: Too wide of a date range in query",)


def test_a_job_that_ended_unrecorded_is_found_in_a_shorter_range(chains, slurm):
    ended = {"squeue": False, "state": "FAILED", "exit": "1:0", "sacct": False}
    slurm.plan("sbatch", LOST | {"creates": True, "job": ended})
    assert only(chains.submit()).kind is OutcomeKind.WAIT
    slurm.set(101, sacct=True)
    slurm.limit_range(DAY)
    before = len(slurm.calls("sacct"))
    assert only(chains.submit()).kind is OutcomeKind.CHANGED
    assert starts(slurm, before) == [1.0, 1.0], "from a day before the submission, then from a little later"
    assert chains.file(".gym_job_chain") == "101\n"
