"""Every way in which a Slurm job ends, as the trigger tells it: real Slurm, real sshd, one connection for all jobs."""

from __future__ import annotations

import asyncio

import pytest

from airflow_gym_provider.triggers.slurm import SlurmJobTrigger

pytestmark = [pytest.mark.slurm, pytest.mark.slow]
# A requeued job begins anew, finds what its first run left, and ends well.
TWICE = "[ -e {0} ] && exit 0; touch {0}; sleep 600"


@pytest.fixture
def connection(cluster, monkeypatch):
    """Airflow's connection to the cluster's sshd."""
    monkeypatch.setenv("AIRFLOW_CONN_GYM_CLUSTER", cluster.exports["AIRFLOW_CONN_GYM_CLUSTER"])
    return "gym_cluster"


async def until_ended(job_id, connection):
    """The one event of a job, as the task would get it."""
    trigger = SlurmJobTrigger([job_id], ssh_conn_id=connection, poll_interval=1)
    async for event in trigger.run():
        return event.payload


async def cause(cluster, jobs):
    """What has to happen to them from outside, once they run."""
    for name in ("cancelled", "preempted", "node failed", "requeued"):
        await asyncio.to_thread(cluster.wait_for, jobs[name], "RUNNING")
    cluster.run(f"scancel {jobs['cancelled']}")
    cluster.run("scontrol update nodename=n4 state=down reason=test")
    cluster.sbatch("sleep 1", "-phigh", "-wn3", "--gpus-per-node=8")
    cluster.run(f"scontrol requeue {jobs['requeued']}")
    await asyncio.to_thread(cluster.wait_for, jobs["requeued"], "PENDING")
    cluster.run(f"scontrol update jobid={jobs['requeued']} starttime=now")


def logins(cluster):
    """How often somebody has logged in over ssh so far."""
    return cluster.run(f"grep -c 'Accepted publickey' {cluster.folder}/log/sshd.out", check=False)


async def test_each_ending_is_told_once_and_as_it_was(cluster, connection, tmp_path):
    logins_before = int(logins(cluster) or 0)
    once = ["--no-requeue", f"--output={tmp_path}/%j"]
    jobs = {
        "completed": cluster.sbatch("sleep 1", *once),
        "failed": cluster.sbatch("exit 3", *once),
        "timed out": cluster.sbatch("sleep 600", "--time=1", *once),
        "cancelled": cluster.sbatch("sleep 600", *once),
        "node failed": cluster.sbatch("sleep 600", "-wn4", *once),
        "preempted": cluster.sbatch("sleep 600", "-plowcancel", "-wn3", "--gpus-per-node=8", *once),
        "requeued": cluster.sbatch(TWICE.format(tmp_path / "twice"), "--requeue", f"--output={tmp_path}/%j"),
    }
    try:
        *events, _ = await asyncio.wait_for(
            asyncio.gather(*(until_ended(job, connection) for job in jobs.values()), cause(cluster, jobs)), 240
        )
    finally:
        cluster.run("scontrol update nodename=n4 state=resume", check=False)

    ends = {name: event["jobs"][0] for name, event in zip(jobs, events, strict=True)}
    assert {event["reason"] for event in events} == {"ended"}
    assert {name: end["ending"] for name, end in ends.items()} == {
        "completed": "COMPLETED",
        "failed": "FAILED",
        "timed out": "TIMEOUT",
        "cancelled": "CANCELLED",
        "node failed": "NODE_FAIL",
        "preempted": "PREEMPTED",
        "requeued": "COMPLETED",
    }
    assert (ends["failed"]["exit_code"], ends["cancelled"]["state"].startswith("CANCELLED")) == (3, True)
    assert ends["timed out"]["elapsed"] >= 60
    assert [end["job_id"] for end in ends.values()] == list(jobs.values()), "a requeued job keeps its id"
    assert int(logins(cluster)) == logins_before + 1, "all triggers share one connection"
