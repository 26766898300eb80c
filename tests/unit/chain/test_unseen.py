"""Jobs that squeue does not show by itself: of hidden partitions, and of a federation's other clusters."""

from __future__ import annotations

import pytest

from airflow_gym_provider.chain import Action, OutcomeKind

LOST = {"rc": 1, "stderr": "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation\n"}


def only(report):
    (outcome,) = report.outcomes.values()
    return outcome


@pytest.fixture(autouse=True)
def every_squeue_asks_for_all(slurm):
    yield
    assert slurm.calls("squeue")
    assert [call["argv"] for call in slurm.calls("squeue") if "--all" not in call["argv"]] == []


@pytest.mark.row("its partition is one that squeue hides")
def test_a_job_in_a_hidden_partition_whose_answer_was_lost_is_adopted(chains, slurm):
    slurm.plan("sbatch", LOST | {"creates": True, "job": {"hidden": True, "squeue": False, "sacct": False}})
    assert only(chains.submit()).kind is OutcomeKind.WAIT
    slurm.set(101, squeue=True)
    chains.age_intent()
    look = chains.look()
    assert chains.decisions(look)["gpqa"].action is Action.ADOPT
    outcome = only(chains.submit(look))
    assert (outcome.kind, outcome.job_id) == (OutcomeKind.ADOPTED, "101")
    assert slurm.live == [101]


def test_its_lost_answer_is_made_good_at_once_where_squeue_knows_it_already(chains, slurm):
    slurm.plan("sbatch", LOST | {"creates": True, "job": {"hidden": True, "sacct": False}})
    outcome = only(chains.submit())
    assert (outcome.kind, outcome.job_id) == (OutcomeKind.SUBMITTED, "101")


@pytest.mark.row("its partition is one that squeue hides")
def test_a_job_that_was_requeued_in_a_hidden_partition_is_waited_for(chains, slurm):
    slurm.plan("sbatch", {"job": {"hidden": True}})
    chains.submit()
    slurm.set(101, state="PREEMPTED", squeue="PENDING")
    look = chains.look()
    assert chains.decisions(look)["gpqa"].action is Action.ADOPT
    assert only(chains.submit(look)).kind is OutcomeKind.ADOPTED
    assert len(slurm.jobs) == 1


def test_an_unrecorded_job_in_a_hidden_partition_is_cancelled(chains, slurm):
    slurm.add(name=chains.places[0].job_name, dir=chains.places[0].job_dir, state="RUNNING", hidden=True)
    assert chains.cancel()["gpqa"].text == "cancelled job 101"
    assert not slurm.live


# -- federations ------------------------------------------------------------------------------------------------------


@pytest.fixture
def on_both(chains, slurm):
    """A job of the chain that runs on c2; c1, to which it was given as well, says REVOKED of it."""

    def add(state: str, **fields: object) -> None:
        for cluster, told in (("c1", "REVOKED"), ("c2", state)):
            name, folder = chains.places[0].job_name, chains.places[0].job_dir
            slurm.add(id=101, cluster=cluster, state=told, **{"name": name, "dir": folder} | fields)

    return add


@pytest.mark.parametrize("clusters", [("c2",), ("c1", "c2")])
def test_what_a_federation_runs_is_taken_up_where_it_runs(chains, slurm, on_both, clusters):
    on_both("RUNNING")
    look = chains.look(clusters=clusters)
    assert look.chains["gpqa"].found == ("101;c2",)
    outcome = only(chains.submit(look, clusters=clusters))
    assert (outcome.kind, outcome.job_id, outcome.cluster) == (OutcomeKind.ADOPTED, "101", "c2")


def test_what_a_federation_has_ended_does_not_live_on_as_revoked(chains, slurm, on_both):
    on_both("TIMEOUT")
    look = chains.look(clusters=("c2",))
    assert look.chains["gpqa"].found == ("101;c2",)
    outcome = only(chains.submit(look, clusters=("c2",)))
    assert outcome.kind is OutcomeKind.SUBMITTED
    assert chains.file(".gym_job_chain") == f"101\n{outcome.job_id}\n"


def test_what_somebody_submitted_by_hand_and_a_federation_has_ended_is_no_job_of_the_chain(chains, on_both):
    on_both("TIMEOUT", name="gym-gpqa")
    look = chains.look(clusters=("c2",))
    assert look.chains["gpqa"].found == ()
    assert only(chains.submit(look, clusters=("c2",))).kind is OutcomeKind.SUBMITTED


def test_a_federations_job_of_which_no_more_than_revoked_is_shown_lives_elsewhere(chains, slurm):
    slurm.plan("sbatch", LOST | {"creates": True, "job": {"state": "REVOKED"}})
    outcome = only(chains.submit())
    assert (outcome.kind, outcome.job_id) == (OutcomeKind.SUBMITTED, "101")
    assert only(chains.submit(chains.look())).kind is OutcomeKind.ADOPTED
    assert len(slurm.jobs) == 1
