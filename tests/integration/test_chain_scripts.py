"""The chain's scripts over a real Slurm: what the stand-in claims of sbatch, squeue, sacct and scancel holds there."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from fakes.chains import Chains

from airflow_gym_provider.chain import Action, ChainKey, OutcomeKind, StagedFile

JOB = "#!/bin/bash\n#SBATCH --account=eval\n#SBATCH --time=5\n{}\n"


@dataclass
class RealSlurm:
    """The session's cluster as the environment of a script."""

    environ: dict[str, str]


@pytest.fixture
def chains(cluster_environ, tmp_path: Path, request):
    """A chain that no other test shares: its run id is the test's own."""
    key = ChainKey("it", f"{request.node.nodeid} {os.getpid()} {time.time()}", "evals")
    chains = Chains(tmp_path / 'it\'s $HOME "q"', RealSlurm(dict(os.environ)), "gpqa", key=key)
    chains.timing = replace(chains.timing, sbatch=30, query=30)
    yield chains
    subprocess.run(["scancel", f"--name={chains.places[0].job_name}"], check=False)


def submit(chains: Chains, command: str, *options: str, **changes):
    script = JOB.format(command)
    if options:
        script = script.replace(
            "#SBATCH --time", "".join(f"#SBATCH {option}\n" for option in options) + "#SBATCH --time"
        )
    changes = {"files": (StagedFile("job.sh", script, 0o600),)} | changes
    (outcome,) = chains.submit(chains.look(), changes=changes).outcomes.values()
    return outcome


def jobs(cluster, chains: Chains) -> list[str]:
    return cluster.jobs_named(chains.places[0].job_name)


def settled(chains: Chains):
    """The decision once squeue and sacct agree."""
    for _ in range(60):
        decision = chains.decisions(chains.look())["gpqa"]
        if decision.action is not Action.WAIT or "COMPLETED" in decision.reason:
            return decision
        time.sleep(0.5)
    pytest.fail(decision.reason)


def test_a_chain_from_its_first_job_to_its_end(cluster, chains):
    one = submit(chains, "sleep 300")
    assert one.kind is OutcomeKind.SUBMITTED
    again = submit(chains, "sleep 300")
    assert (again.kind, again.job_id) == (OutcomeKind.ADOPTED, one.job_id)
    cluster.wait_for(one.job_id, "RUNNING")
    assert chains.decisions(chains.look())["gpqa"].action is Action.ADOPT
    assert chains.cancel("tried")["gpqa"].cancelled == (one.job_id,)
    cluster.wait_for(one.job_id, "CANCELLED")
    assert "on our request (tried)" in settled(chains).reason
    two = submit(chains, "exit 75")
    cluster.wait_for(two.job_id, "FAILED")
    assert "FAILED 75:0 (progress made)" in settled(chains).reason
    three = submit(chains, "exit 3")
    cluster.wait_for(three.job_id, "FAILED")
    assert settled(chains).reason == "FAILED 3:0; retry 1 of 2"
    four = submit(chains, "true")
    cluster.wait_for(four.job_id, "COMPLETED")
    assert settled(chains).reason.startswith("COMPLETED")
    ids = [one.job_id, two.job_id, three.job_id, four.job_id]
    assert chains.file(".gym_job_chain").split() == ids == jobs(cluster, chains)
    assert chains.record()["benchmarks"][0]["job_id"] == four.job_id


def test_the_job_runs_where_and_as_it_was_told(cluster, chains):
    outcome = submit(chains, 'printf "%s|%s|%s" "$PWD" "$TOKEN" "$LC_ALL" >result', walltime=125)
    cluster.wait_for(outcome.job_id, "COMPLETED")
    limit = cluster.run(f"squeue -h -t all -j {outcome.job_id} -o %l").strip()
    assert limit == "3:00"  # Slurm rounds up to minutes
    assert chains.file("result").split("|")[0] == chains.places[0].job_dir


def test_forwarded_values_reach_the_job(cluster, chains):
    value = "a b'\"$c\nd"
    files = (StagedFile("job.sh", JOB.format('printf %s "$TOKEN" >result'), 0o600),)
    (outcome,) = chains.submit(chains.look(), changes={"files": files}, environ={"TOKEN": value}).outcomes.values()
    cluster.wait_for(outcome.job_id, "COMPLETED")
    assert chains.file("result") == value


def test_a_held_job_is_found_recorded_or_not(cluster, chains):
    outcome = submit(chains, "true", "--hold")
    assert submit(chains, "true").job_id == outcome.job_id
    (chains.directory() / ".gym_job_chain").unlink()
    look = chains.look()
    assert look.chains["gpqa"].found == (outcome.job_id,)
    adopted = submit(chains, "true")
    assert (adopted.kind, adopted.job_id) == (OutcomeKind.ADOPTED, outcome.job_id)
    assert chains.file(".gym_job_chain").split() == [outcome.job_id]
    assert chains.cancel()["gpqa"].left == ()


def test_a_requeued_job_stays_the_chains_job(cluster, chains):
    outcome = submit(chains, "sleep 300", "--requeue")
    cluster.wait_for(outcome.job_id, "RUNNING")
    cluster.run(f"scontrol requeue {outcome.job_id}")
    for _ in range(5):
        assert submit(chains, "true").job_id == outcome.job_id
    assert len(jobs(cluster, chains)) == 1


def test_a_job_submitted_by_hand_is_adopted(cluster, chains):
    first = submit(chains, "true")
    cluster.wait_for(first.job_id, "COMPLETED")
    settled(chains)
    script = chains.directory() / "job.sh"
    script.write_text(JOB.format("sleep 300").replace("\n#SBATCH", "\n#SBATCH --job-name=gym-gpqa\n#SBATCH", 1))
    done = subprocess.run(
        ["sbatch", "--parsable", "job.sh"], cwd=chains.directory(), capture_output=True, text=True, check=True
    )
    by_hand = done.stdout.strip()
    outcome = submit(chains, "true")
    assert (outcome.kind, outcome.job_id) == (OutcomeKind.ADOPTED, by_hand)
    assert chains.cancel(quick=True)["gpqa"].cancelled == (by_hand,)


def test_what_slurm_refuses_is_told_and_leaves_nothing(cluster, chains):
    outcome = submit(chains, "true", "--partition=nowhere")
    assert (outcome.kind, outcome.returncode) == (OutcomeKind.REFUSED, 1)
    assert "partition" in outcome.stderr
    assert chains.record()["benchmarks"][0]["job_id"] is None
    outcome = submit(chains, "true", "--time=never")
    assert outcome.kind is OutcomeKind.REFUSED
    assert submit(chains, "true").kind is OutcomeKind.SUBMITTED


def test_a_cancel_says_what_had_ended(cluster, chains):
    outcome = submit(chains, "true")
    cluster.wait_for(outcome.job_id, "COMPLETED")
    report = chains.cancel(quick=True)["gpqa"]
    assert report.cancelled == () or report.ended == ()
    assert report.left == ()


def test_submitters_at_once_make_one_job(cluster, chains):
    look = chains.look()
    outcomes = []
    changes = {"files": (StagedFile("job.sh", JOB.format("sleep 300"), 0o600),)}
    threads = [
        threading.Thread(target=lambda: outcomes.extend(chains.submit(look, changes=changes).outcomes.values()))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcome.kind for outcome in outcomes) == ["changed"] * 3 + ["submitted"]
    assert len(jobs(cluster, chains)) == 1
