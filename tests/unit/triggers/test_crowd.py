"""A thousand jobs for the price of one, and who shares with whom: counts, no timings."""

import asyncio
import itertools
import logging
import tracemalloc

import pytest
from fakes.answering import AnsweringHook

from airflow_gym_provider.triggers import watcher as module
from airflow_gym_provider.triggers.slurm import SlurmJobTrigger
from airflow_gym_provider.triggers.watcher import watcher_for


@pytest.fixture
def hooks(monkeypatch):
    """The hooks that watchers make: by connection id. `hooks.places` says which login node a connection leads to."""

    class Hooks(dict):
        def __init__(self):
            self.places = {}
            self.floors = {}
            self.jobs = {}

    made = Hooks()

    def make(ssh_conn_id, hostname):
        hook = made[ssh_conn_id] = AnsweringHook(
            made.places.get(ssh_conn_id, ssh_conn_id), made.floors.get(ssh_conn_id, 30.0)
        )
        hook.jobs = made.jobs
        return hook

    monkeypatch.setattr(module, "SlurmHook", make)
    monkeypatch.setattr(SlurmJobTrigger, "log", logging.Logger("quiet"))
    return made


async def crowd(conn_ids, jobs, seconds, during=None):
    """Each job's trigger for a while; who fired, and when."""
    fired = {}

    async def wait(conn_id, job):
        async for event in SlurmJobTrigger([job], ssh_conn_id=conn_id).run():
            fired[job] = (event.payload["jobs"][0]["ending"], asyncio.get_running_loop().time())

    tasks = [
        asyncio.create_task(wait(conn_id, job)) for conn_id, job in zip(itertools.cycle(conn_ids), jobs, strict=False)
    ]
    if during:
        await during()
    await asyncio.wait(tasks, timeout=seconds)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return fired


def numbers(count):
    return [str(10_000_000 + n) for n in range(count)]


def test_a_thousand_jobs_are_one_call_an_interval(run, hooks):
    jobs = numbers(1000)
    hooks.jobs.update(dict.fromkeys(jobs, "RUNNING"))

    async def during():
        await asyncio.sleep(620)
        hooks.jobs[jobs[500]] = "COMPLETED"

    fired = run(crowd(["a"], jobs, 1000, during))
    [hook] = hooks.values()
    times = [at for at, _ in hook.calls]
    assert len(times) <= 1620 / 30 + 1
    assert min(b - a for a, b in itertools.pairwise(times)) >= 30
    assert (hook.most_at_once, hook.loads) == (1, 1)
    assert set(fired) == {jobs[500]}
    assert 1620 < fired[jobs[500]][1] < 1620 + 30 + 2


def test_two_hundred_that_end_at_once_are_all_seen_by_the_next_look(run, hooks):
    jobs = numbers(200)
    hooks.jobs.update(dict.fromkeys(jobs, "RUNNING"))

    async def during():
        await asyncio.sleep(100)
        hooks.jobs.update(dict.fromkeys(jobs, "FAILED"))

    fired = run(crowd(["a"], jobs, 1000, during))
    assert len(fired) == 200
    assert {ending for ending, _ in fired.values()} == {"FAILED"}
    assert max(at for _, at in fired.values()) < 1100 + 32


def test_connections_that_lead_to_one_place_share_and_others_do_not(run, hooks):
    hooks.places.update({"a": "login1", "b": "login1", "c": "login2"})
    jobs = numbers(30)
    hooks.jobs.update(dict.fromkeys(jobs, "RUNNING"))
    run(crowd(["a", "b", "c"], jobs, 300))
    asking = {conn_id: len(hook.calls) for conn_id, hook in hooks.items() if hook.calls}
    assert len(asking) == 2
    assert "c" in asking
    assert max(asking.values()) <= 300 / 30 + 1


def test_the_longest_floor_of_a_shared_place_counts(run, hooks):
    hooks.places.update({"a": "login1", "b": "login1"})
    hooks.floors.update({"a": 30.0, "b": 90.0})
    jobs = numbers(2)
    hooks.jobs.update(dict.fromkeys(jobs, "RUNNING"))
    run(crowd(["a", "b"], jobs, 1000))
    [times] = [[at for at, _ in hook.calls] for hook in hooks.values() if len(hook.calls) > 2]
    assert min(b - a for a, b in itertools.pairwise(times[1:])) >= 90


def test_a_script_of_one_goes_over_the_connection_of_all(run, hooks):
    from airflow_gym_provider.slurm.remote import RemoteScript

    hooks.places.update({"a": "login1", "b": "login1"})
    hooks.jobs["1"] = "RUNNING"

    async def during():
        await asyncio.sleep(50)
        await watcher_for("b", None).run(RemoteScript.build("frame x", needs=()), 10)

    run(crowd(["a"], ["1"], 100, during))
    assert hooks["b"].calls == []
    assert any("frame x" in script.text for _, script in hooks["a"].calls)


def test_a_job_costs_less_than_20_kb(run, hooks):
    jobs = numbers(1000)
    hooks.jobs.update(dict.fromkeys(jobs, "RUNNING"))
    held = []

    async def during():
        await asyncio.sleep(100)
        held.append(tracemalloc.get_traced_memory()[0])

    async def main():
        before = tracemalloc.get_traced_memory()[0]
        await crowd(["a"], jobs, 1, during)
        return before

    tracemalloc.start()
    try:
        before = run(main())
    finally:
        tracemalloc.stop()
    assert (held[0] - before) / 1000 < 20 * 1024
