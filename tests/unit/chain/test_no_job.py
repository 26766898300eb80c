"""A 0 in a chain's file, of whoever wrote it, is no job: squeue and sacct refuse a whole question that names it."""

from __future__ import annotations

import pytest

from airflow_gym_provider.chain import OutcomeKind


@pytest.fixture(autouse=True)
def written(chains):
    chains.submit()
    (chains.directory() / ".gym_job_chain").write_text("101\n0\n")


def test_it_is_not_asked_about(chains, slurm):
    before = len(slurm.calls("sacct"))
    chains.look()
    asked = [word for call in slurm.calls("sacct")[before:] for word in call["argv"] if word.startswith("--jobs=")]
    assert asked == ["--jobs=101"]


def test_it_is_not_cancelled(chains, slurm):
    assert chains.cancel()["gpqa"].text == "cancelled job 101"
    assert [call["argv"] for call in slurm.calls("scancel")] == [["101"]]


def test_it_is_not_the_one_job_that_a_benchmark_had(chains, slurm):
    slurm.set(101, state="COMPLETED")
    (outcome,) = chains.submit(chains.look(), changes={"once": True}).outcomes.values()
    assert (outcome.kind, outcome.job_id) == (OutcomeKind.ADOPTED, "101")
