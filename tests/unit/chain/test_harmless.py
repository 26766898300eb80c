"""A site whose slurm.conf has a name of yesterday: each of Slurm's commands says an error at each call, and goes on."""

from __future__ import annotations

import pytest

from airflow_gym_provider.chain import Action, OutcomeKind

LOST = "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation\n"
INVALID = "sbatch: error: Batch job submission failed: Invalid partition name specified\n"


def only(report):
    (outcome,) = report.outcomes.values()
    return outcome


def noise(tool):
    return f"{tool}: error: Ignoring ControlMachine since SlurmctldHost is set.\n"


@pytest.fixture(autouse=True)
def noisy(slurm):
    for tool in ("squeue", "sacct", "scancel", "sbatch"):
        slurm.plan(tool, {"stderr": noise(tool)}, always=True)


def test_a_chain_goes_its_way(chains, slurm):
    assert only(chains.submit()).kind is OutcomeKind.SUBMITTED
    assert only(chains.submit(chains.look())).kind is OutcomeKind.ADOPTED
    slurm.set(101, state="TIMEOUT", squeue=False)
    look = chains.look()
    assert (look.problems, chains.decisions(look)["gpqa"].action) == ((), Action.SUBMIT)
    assert only(chains.submit(look)).job_id == "102"
    assert chains.cancel()["gpqa"].text == "cancelled job 102"


def test_a_submission_that_was_cut_off_is_made_good(chains, slurm):
    slurm.plan("sbatch", {"rc": 1, "stderr": noise("sbatch") + LOST})
    assert only(chains.submit()).kind is OutcomeKind.WAIT
    chains.age_intent()
    look = chains.look()
    assert chains.decisions(look)["gpqa"].action is Action.SUBMIT
    assert only(chains.submit(look)).kind is OutcomeKind.SUBMITTED
    assert slurm.live == [101]


def test_a_job_whose_answer_was_lost_and_which_has_ended_is_found_in_accounting(chains, slurm):
    ended = {"squeue": False, "state": "FAILED", "exit": "1:0", "sacct": False}
    slurm.plan("sbatch", {"rc": 1, "stderr": noise("sbatch") + LOST, "creates": True, "job": ended})
    assert only(chains.submit()).kind is OutcomeKind.WAIT
    slurm.set(101, sacct=True)
    assert only(chains.submit()).kind is OutcomeKind.CHANGED
    assert chains.file(".gym_job_chain") == "101\n"


def test_a_refusal_is_one(chains, slurm):
    slurm.plan("sbatch", {"rc": 1, "stderr": noise("sbatch") + INVALID})
    assert only(chains.submit()).kind is OutcomeKind.REFUSED
    assert not slurm.jobs


def test_an_outage_is_one(chains, slurm):
    chains.submit()
    slurm.set(101, state="TIMEOUT", squeue=False)
    look = chains.look()
    down = "squeue: error: Unable to contact slurm controller (connect failure)\n"
    slurm.plan("squeue", {"stderr": noise("squeue") + down}, always=True)
    assert only(chains.submit(look)).kind is OutcomeKind.UNKNOWN, "although its exit status is 0"
    assert chains.decisions(chains.look())["gpqa"].action is Action.WAIT


def test_a_site_without_accounting_is_one(chains, slurm):
    slurm.plan("sbatch", {"rc": 1, "stderr": noise("sbatch") + LOST})
    chains.submit()
    chains.age_intent()
    slurm.plan("sacct", {"rc": 1, "stderr": noise("sacct") + "Slurm accounting storage is disabled\n"}, always=True)
    assert only(chains.submit(chains.look())).kind is OutcomeKind.SUBMITTED
