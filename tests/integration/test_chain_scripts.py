"""The chain's scripts over a real Slurm: what the stand-in claims of sbatch, squeue, sacct and scancel holds there."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from fakes.chains import Chains, at_once

from airflow_gym_provider.chain import Action, ChainKey, OutcomeKind, StagedFile
from airflow_gym_provider.slurm import JobRef, RemoteScript, parse_status, status_script
from airflow_gym_provider.slurm.alive import LiveRows, Told, alive_script, read_alive

JOB = "#!/bin/bash\n#SBATCH --account=eval\n#SBATCH --time=5\n{}\n"


SITE = {
    **dict.fromkeys(("SACCT_FORMAT", "SINFO_FORMAT"), "JobName"),
    **dict.fromkeys(("SQUEUE_USERS", "SQUEUE_ACCOUNT", "SCANCEL_USER", "SCANCEL_ACCOUNT", "SBATCH_ACCOUNT"), "nobody"),
    **dict.fromkeys(("SQUEUE_STATES", "SCANCEL_STATE"), "SUSPENDED"),
    **dict.fromkeys(("SQUEUE_PARTITION", "SCANCEL_PARTITION", "SBATCH_PARTITION"), "low"),
    **dict.fromkeys(("SQUEUE_NAMES", "SCANCEL_NAME", "SBATCH_JOB_NAME", "SCANCEL_QOS", "SBATCH_QOS"), "other"),
    **dict.fromkeys(("SLURM_CLUSTERS", "SBATCH_CLUSTERS", "SBATCH_RESERVATION", "SBATCH_CONSTRAINT"), "elsewhere"),
    **dict.fromkeys(
        ("SBATCH_WAIT", "SBATCH_REQUEUE", "SCANCEL_INTERACTIVE", "SBATCH_TIMELIMIT", "SBATCH_EXCLUSIVE"), "1"
    ),
    **dict.fromkeys(("SLURM_JOB_ID", "SLURM_JOBID", "SLURM_ARRAY_TASK_ID", "SLURM_PROCID", "SLURM_RESTART_COUNT"), "7"),
    **dict.fromkeys(("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NNODES", "SLURM_CPUS_PER_TASK", "SBATCH_GPUS"), "64"),
    **dict.fromkeys(("SBATCH_EXPORT", "SLURM_EXPORT_ENV"), "NONE"),
    **dict.fromkeys(("SBATCH_OUTPUT", "SBATCH_ERROR", "SBATCH_INPUT"), "/nowhere/x"),
    "SQUEUE_FORMAT": "%j",
    "SQUEUE_FORMAT2": "name",
    "SQUEUE_SORT": "-i",
    "SQUEUE_ARRAY": "1",
    "SLURM_TIME_FORMAT": "relative",
    "SBATCH_ARRAY_INX": "1-3",
    "SBATCH_DEPENDENCY": "afterok:1",
    "SLURM_JOB_NAME": "interactive",
    "SLURM_SUBMIT_DIR": "/nowhere",
    "SLURM_TMPDIR": "/nowhere",
    **dict.fromkeys(("LC_ALL", "LANG", "LANGUAGE"), "de_DE.UTF-8"),
    "TZ": "Asia/Tokyo",
    "CDPATH": "/usr",
    "GREP_OPTIONS": "-v",
    "SHELLOPTS": "braceexpand:errexit:nounset:noglob:noclobber:pipefail",
    **{
        f"BASH_FUNC_{name}%%": "() { /bin/echo hijacked; }"
        for name in ("squeue", "sbatch", "cd", "printf", "unset", "[")
    },
}
"""What a login environment may say: a site's defaults, an enclosing job, a language, functions for tools."""


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


def test_no_default_of_a_site_changes_what_is_submitted_answered_or_cancelled(cluster, chains, tmp_path):
    start_up = tmp_path / "start-up"
    start_up.write_text(
        "shopt -s expand_aliases; alias squeue='echo alias' rm='rm -i'; echo 'Welcome to a job'; IFS=,\n"
    )
    hostile = SITE | {"BASH_ENV": str(start_up)}
    assert subprocess.run(["squeue"], env=chains.slurm.environ | hostile, capture_output=True).returncode != 0
    clean = dict(chains.environ)
    chains.environ = hostile
    one = submit(chains, "env >environment; sleep 300", walltime=240)
    assert one.kind is OutcomeKind.SUBMITTED, one
    again = submit(chains, "sleep 300")
    assert (again.kind, again.job_id) == (OutcomeKind.ADOPTED, one.job_id)
    cluster.wait_for(one.job_id, "RUNNING")
    job = dict(word.partition("=")[::2] for word in cluster.run(f"scontrol -o show job {one.job_id}").split())
    assert (job["JobName"], job["Partition"], job["Account"]) == (chains.places[0].job_name, "debug", "eval")
    assert (job["TimeLimit"], job["NumNodes"], job["Dependency"]) == ("00:04:00", "1", "(null)")
    assert "ArrayJobId" not in job
    assert job["StdOut"].startswith(chains.places[0].job_dir.split()[0])
    ref = JobRef(one.job_id, job_dir=chains.places[0].job_dir)
    seen = []
    for environ in (clean, hostile):
        chains.environ = environ
        assert chains.decisions(chains.look())["gpqa"].action is Action.ADOPT
        script = RemoteScript.build(status_script([ref]))
        status = parse_status([ref], script.frames(chains.run(script).stdout)).jobs[ref.key]
        told = Told()
        script = RemoteScript.build(alive_script([ref], told))
        alive = read_alive([ref], script.frames(chains.run(script).stdout), LiveRows(), told).jobs[ref.key]
        seen.append([replace(found, elapsed=0, rows=(), source=None) for found in (status, alive)])
        assert status.known and status.live and status.elapsed < 200
    assert seen[0] == seen[1]
    environment = dict(line.partition("=")[::2] for line in chains.file("environment").splitlines())
    given = {name: environment.get(name) for name in SITE if environment.get(name) == SITE[name]}
    assert set(given) <= {"LC_ALL", "LANG", "LANGUAGE", "TZ", "SLURM_PROCID"}, given
    assert (environment["SLURM_JOB_ID"], environment["TZ"], environment["LC_ALL"]) == (
        one.job_id,
        "Asia/Tokyo",
        "de_DE.UTF-8",
    )
    assert chains.cancel("tried")["gpqa"].cancelled == (one.job_id,)
    cluster.wait_for(one.job_id, "CANCELLED")
    assert "on our request (tried)" in settled(chains).reason
    assert jobs(cluster, chains) == [one.job_id]


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
    changes = {"files": (StagedFile("job.sh", JOB.format("sleep 300"), 0o600),)}
    reports = at_once([lambda: chains.submit(look, changes=changes)] * 4)
    outcomes = [outcome for report in reports for outcome in report.outcomes.values()]
    assert sorted(outcome.kind for outcome in outcomes) == ["changed"] * 3 + ["submitted"]
    assert len(jobs(cluster, chains)) == 1
