"""Everything is killed while chains wait: Airflow's processes, Slurm's daemons, the way between them.

One scenario in stages: each takes something away, brings it back, and looks at what became of the chains. The last one
lets them go on to their end.
"""

from __future__ import annotations

import os
import signal
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from canaries import holders, in_answers, in_database
from stack import Job, Run, Stack, process_stat, wait_until

pytestmark = [pytest.mark.dag("e2e_outages"), pytest.mark.outage]
UNTOUCHED = [("deferred", -1), ("mapped", 0), ("mapped", 1), ("in_worker", -1), ("orphaned", -1)]
ENDED = {"timed_out": "TIMEOUT", "preempted": "PREEMPTED", "node_lost": "NODE_FAIL"}
CHAINS = [*UNTOUCHED, *((task_id, -1) for task_id in ("forsaken", "requeued", *ENDED))]
Places = dict[tuple[str, int], dict[str, Any]]


@pytest.fixture(scope="module")
def places(runs: dict[str, Run], stack: Stack) -> Places:
    """Where each chain's first job runs, once all of them do."""
    run = runs["e2e_outages"]
    found = {
        chain: wait_until(
            f"{chain} has a job",
            240,
            lambda chain=chain: job_of(run, *chain),
            say=lambda chain=chain: run.story(*chain),
        )
        for chain in CHAINS
    }
    wait_until(
        "every job has answered its first question",
        120,
        lambda: all(answers(place) >= 1 for place in found.values()),
        say=lambda: str({chain: answers(place) for chain, place in found.items()}),
    )
    return found


def job_of(run: Run, task_id: str, map_index: int) -> dict[str, Any] | None:
    task = run.task(task_id, map_index)
    return run.api.result(task, "gym_job") if task.get("task_id") and task["state"] in ("running", "deferred") else None


def answers(place: dict[str, Any]) -> int:
    """How many rollouts there are."""
    found = Path(place["job_dir"]) / "artifacts" / "rollouts.jsonl"
    return len(found.read_text().splitlines()) if found.exists() else 0


def live(stack: Stack, place: dict[str, Any]) -> list[str]:
    """Ids of the jobs in this chain's directory that have not ended."""
    rows = (row.split("|", 1) for row in stack.shell("squeue -h -o '%A|%Z'").splitlines())
    return [job_id for job_id, folder in rows if folder == place["job_dir"]]


def assert_untouched(stack: Stack, places: Places, *but: str) -> None:
    """Each chain still has its first job and no other, and nobody has asked for its end."""
    for (task_id, map_index), place in places.items():
        if task_id in but:
            continue
        chain = f"{task_id}[{map_index}]"
        assert live(stack, place) == [place["job_id"]], chain
        assert [job.job_id for job in stack.jobs_below(place["job_dir"])] == [place["job_id"]], chain
        assert not (Path(place["job_dir"]) / ".gym_cancelled").exists(), f"{chain} was cancelled"


def watched(run: Run, task_id: str, tries: int = 0) -> dict[str, Any]:
    """The task once somebody waits for its job again."""
    return run.wait_for(task_id, "running", "deferred", tries=tries)


def triggerers(run: Run) -> set[int]:
    """The triggerers that the run's deferred tasks are assigned to."""
    waiting = [task for task in run.tasks().values() if task["state"] == "deferred"]
    return {(task["trigger"] or {}).get("triggerer_id") for task in waiting}


@pytest.mark.row("the worker dies or is shut down, anywhere")
def test_a_worker_that_is_killed_leaves_its_job_to_the_next_try(run: Run, stack: Stack, places: Places):
    tries = run.task("in_worker")["try_number"]
    # The whole worker of one, whose task goes on without it; of the other only the task's own process.
    _, worker = process_stat(run.task("orphaned")["pid"])
    assert worker, "the task's process is gone"
    os.kill(worker, signal.SIGKILL)
    os.kill(run.task("in_worker")["pid"], signal.SIGKILL)
    watched(run, "in_worker", tries + 1)
    wait_until(
        "the next try has found the job",
        60,
        lambda: f"job {places['in_worker', -1]['job_id']} in " in run.log("in_worker", tries + 1),
        say=lambda: run.story("in_worker"),
    )
    assert_untouched(stack, places)


@pytest.mark.row("the worker dies or is shut down, anywhere")
def test_a_worker_that_is_shut_down_leaves_its_job_to_the_next_try(run: Run, stack: Stack, places: Places):
    task = watched(run, "in_worker")
    os.kill(task["pid"], signal.SIGTERM)
    watched(run, "in_worker", task["try_number"] + 1)
    assert "not cancelled: nobody has marked or cleared the task" in run.log("in_worker", task["try_number"])
    assert_untouched(stack, places)


@pytest.mark.row("a second triggerer takes over")
def test_two_triggerers_at_once_neither_cancel_nor_double(run: Run, stack: Stack, places: Places):
    (first,) = triggerers(run)
    with stack.second_triggerer():
        leader = stack.leader("triggerer")
        stack.signal_all(leader, signal.SIGSTOP)
        try:
            wait_until("the second has all triggers", 120, lambda: first not in triggerers(run))
        finally:
            stack.signal_all(leader, signal.SIGCONT)
        # The first goes on with what the second has by now, until it learns of that.
        time.sleep(8)
        assert_untouched(stack, places)
    assert {task["state"] for task in run.tasks().values()} <= {"running", "deferred"}


@pytest.mark.row("slurmctld, slurmdbd or the login node is away")
def test_slurmctld_slurmdbd_sshd_and_the_api_server_are_killed_and_nothing_ends(run: Run, stack: Stack, places: Places):
    stack.crash("slurmctld", "slurmdbd", "sshd", "api-server")
    time.sleep(12)
    stack.start_again(cluster=True)
    assert_untouched(stack, places)
    assert {task["state"] for task in run.tasks().values()} <= {"running", "deferred", "up_for_retry", "queued"}


@pytest.mark.row("a job hits its walltime, is preempted, or its node fails")
def test_jobs_that_end_while_nobody_watches_are_gone_on_with_by_one_job_each(run: Run, stack: Stack, places: Places):
    stack.crash("scheduler", "triggerer")
    end_jobs(stack, places)
    run.mark("forsaken", "failed")
    stack.start_again()
    for task_id, state in ENDED.items():
        place = places[task_id, -1]
        jobs = wait_until(
            f"{task_id} has its second job",
            150,
            lambda place=place: len(found := stack.jobs_below(place["job_dir"])) == 2 and found,
            say=lambda task_id=task_id: run.story(task_id),
        )
        assert jobs[0].state == state, task_id
        wait_until(f"{task_id} lives", 60, lambda place=place, jobs=jobs: live(stack, place) == [jobs[1].job_id])
    assert live(stack, places["requeued", -1]) == [places["requeued", -1]["job_id"]]
    assert_untouched(stack, places, *ENDED, "requeued")


def end_jobs(stack: Stack, places: Places) -> None:
    """A walltime that ends, a node that fails, and an important job that takes two others' nodes."""
    ids = {task_id: place["job_id"] for (task_id, _), place in places.items()}
    stack.shell(f"scontrol update jobid={ids['timed_out']} timelimit=1")
    stack.shell("scontrol update nodename=n4 state=down reason=test")
    # Refused while slurmctld waits for a word of the node's.
    stack.shell("for _ in {1..30}; do scontrol update nodename=n4 state=resume && exit; sleep 1; done; exit 1")
    stack.shell("sbatch -A eval -p high -w n2,n3 -N 2 --gpus-per-node=8 -o /dev/null --wrap 'sleep 3'")


@pytest.mark.row("you mark it while no triggerer runs")
def test_a_task_marked_while_no_triggerer_runs_leaves_its_job_until_it_is_cleared(
    run: Run, stack: Stack, places: Places
):
    place = places["forsaken", -1]
    before = run.task("forsaken")
    assert before["state"] == "failed"
    assert live(stack, place) == [place["job_id"]], "Airflow has told nobody"
    run.clear("forsaken")
    watched(run, "forsaken", before["try_number"] + 1)
    taken_up = {"job_id": place["job_id"], "job_dir": place["job_dir"]}.items()
    wait_until("the job is taken up", 60, lambda: taken_up <= (job_of(run, "forsaken", -1) or {}).items())
    assert live(stack, place) == [place["job_id"]]


@pytest.mark.row("the scheduler, the triggerer or the API server dies, or all are deployed anew")
def test_a_scheduler_that_dies_alone_leaves_two_workers_with_one_job(run: Run, stack: Stack, places: Places):
    task = watched(run, "in_worker")
    # Its workers live on, while the next scheduler gives their tasks to others; then Airflow ends them.
    stack.kill_alone("scheduler")
    stack.start_again()
    watched(run, "in_worker", task["try_number"] + 1)
    wait_until("the old worker has gone", 60, lambda: not Path(f"/proc/{task['pid']}").exists())
    assert_untouched(stack, places, *ENDED, "requeued")


@pytest.mark.row("the scheduler, the triggerer or the API server dies, or all are deployed anew")
def test_a_deploy_cancels_nothing_and_every_chain_ends_as_it_should(run: Run, stack: Stack, places: Places):
    stack.down_airflow()
    stack.start_again()
    stack.open_gate("outages")
    results = {chain: run.green(*chain) for chain in CHAINS}
    for (task_id, map_index), result in results.items():
        chain = f"{task_id}[{map_index}]"
        jobs = ended_one_after_the_other(stack, result["job_dir"], chain)
        assert [job.job_id for job in jobs] == result["job_ids"], chain
        states = [ENDED[task_id], "COMPLETED"] if task_id in ENDED else ["COMPLETED"]
        assert [job.state for job in jobs] == states, chain
        assert (result["rollouts_done"], result["complete"]) == (3, True), chain
        retries = (Path(result["job_dir"]) / ".gym_infra_retries").read_text().strip()
        assert retries == "0", f"{chain}: none of that was the benchmark's failure"
    attempts = stack.shell(f"sacct -nXPD -j {results['requeued', -1]['job_id']} -o State").split()
    assert attempts == ["PREEMPTED", "COMPLETED"], "Slurm itself has begun it again, under the same id"
    assert run.task("orphaned")["try_number"] > 1, "its worker was killed"
    wait_until("the run's good end", 60, lambda: run.api.run_state(run.dag_id, run.run_id) == "success")


def test_nothing_that_died_has_left_a_secret_anywhere(run: Run, stack: Stack):
    places = [run.api.result(run.task(*chain), "return_value") for chain in CHAINS]
    scripts = {Path(place["job_dir"]) / "job.sh" for place in places}
    assert holders(stack, [place["run_dir"] for place in places]) == scripts
    assert {script.stat().st_mode & 0o777 for script in scripts} == {0o600}
    assert (in_database(stack), in_answers(stack, run)) == ({}, [])


def ended_one_after_the_other(stack: Stack, folder: str, chain: str) -> list[Job]:
    """All jobs of a chain: ended, and never two of them at once."""
    jobs = stack.jobs_below(folder)
    assert not {job.job_id for job in jobs} & stack.live_jobs(), f"{chain} has left a job"
    assert all(one.end <= other.start for one, other in pairwise(jobs)), f"{chain}: two at once"
    return jobs
