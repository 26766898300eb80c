"""Many tasks, one login node: how often it is asked, and what happens when it does not answer."""

import asyncio
import itertools
from typing import ClassVar

import pytest

from airflow_gym_provider.exceptions import SlurmAuthenticationError, SlurmUnreachableError
from airflow_gym_provider.slurm.status import JobRef, JobStatus
from airflow_gym_provider.triggers import watcher as module
from airflow_gym_provider.triggers.observe import Observation
from airflow_gym_provider.triggers.watcher import Watcher, watcher_for


class Hook:
    """Stands for SlurmHook: knows only what the watcher needs of it."""

    poll_floor = 30.0
    place = None
    script_options: ClassVar = {}

    def __init__(self, *_):
        self.closed = 0
        self.forgotten = 0

    async def aload(self):
        return None

    def forget(self):
        self.forgotten += 1

    async def aclose(self):
        self.closed += 1


@pytest.fixture
def looks(monkeypatch):
    """Every look: (time, refs). Set `looks.answer` to a function of the time."""

    class Looks(list):
        answer = staticmethod(lambda now: Observation(answered=True))

    made = Looks()

    class FakeLooker:
        def __init__(self, hook):
            self.forgotten = []

        def forget(self, keys):
            self.forgotten += keys

        async def look(self, refs, progress, tails):
            now = asyncio.get_running_loop().time()
            made.append((now, list(refs.values())))
            await asyncio.sleep(0.1)
            return made.answer(now)

    monkeypatch.setattr(module, "Looker", FakeLooker)
    return made


async def follow(watcher, job_id, seconds, interval=30.0):
    """Take part for a while; the looks that came."""
    came = []
    end = asyncio.get_running_loop().time() + seconds
    with watcher.subscribe([JobRef(job_id)], interval) as subscription:
        while (rest := end - asyncio.get_running_loop().time()) > 0:
            look = await subscription.next(rest)
            if look is not None:
                came.append(look)
                if look.fatal:
                    break
    return came


def statuses(**fields):
    """One job's status, as a look has it."""
    return {"1": JobStatus(JobRef("1"), **({"known": True} | fields))}


def gaps(looks):
    times = [at for at, _ in looks]
    return [round(b - a, 1) for a, b in itertools.pairwise(times)]


def test_two_hundred_tasks_are_one_call_per_interval(run, looks):
    async def main():
        watcher = Watcher(Hook())
        return await asyncio.gather(*(follow(watcher, str(n), 3600) for n in range(1, 201)))

    news = {f"{n}": JobStatus(JobRef(f"{n}"), "RUNNING", known=True) for n in range(1, 201)}
    looks.answer = lambda now: Observation(news if now < 1100 else {}, answered=True)
    came = run(main())
    assert 3600 / 30 - 2 <= len(looks) <= 3600 / 30 + 1
    assert len(looks[0][1]) == 200
    assert {len(each) for each in came} == {1}  # whoever has no news is not woken


def test_a_first_look_comes_within_a_second_or_two(run, looks):
    run(follow(Watcher(Hook()), "1", 5))
    assert len(looks) == 1
    assert looks[0][0] - 1000 <= 1


def test_the_connections_floor_counts(run, looks):
    run(follow(Watcher(Hook()), "1", 100, interval=1))
    assert min(gaps(looks)) >= 30


def test_a_shorter_interval_of_one_task_is_everybodys(run, looks):
    async def main():
        hook = Hook()
        hook.poll_floor = 1.0
        watcher = Watcher(hook)
        await asyncio.gather(follow(watcher, "1", 60, interval=20), follow(watcher, "2", 60, interval=5))

    run(main())
    assert max(gaps(looks)) < 6


def test_looks_that_fail_come_less_and_less_often_then_as_before(run, looks):
    away = Observation.failed(SlurmUnreachableError("no route to host"))
    looks.answer = lambda now: away if now < 1000 + 8 * 3600 else Observation(answered=True)
    run(follow(Watcher(Hook()), "1", 10 * 3600))
    failing = [gap for gap, (at, _) in zip(gaps(looks), looks, strict=False) if at < 1000 + 7 * 3600]
    assert failing[0] < failing[1] < failing[2] < failing[3]
    assert 480 <= failing[-1] <= 601
    assert len(failing) < 70
    assert gaps(looks)[-1] < 31


def test_a_login_node_that_refuses_is_asked_once(run, looks):
    looks.answer = lambda now: Observation.failed(SlurmAuthenticationError("login refused"), fatal=True)

    hook = Hook()

    async def main():
        watcher = Watcher(hook)
        return await asyncio.gather(*(follow(watcher, str(n), 3600) for n in range(1, 6)))

    came = run(main())
    assert len(looks) == 1
    assert all(each[-1].fatal for each in came)
    assert hook.forgotten  # the connection may be repaired when somebody asks again


def test_when_nobody_waits_any_more_the_connection_is_closed_and_opens_again(run, looks):
    async def main():
        hook = Hook()
        watcher = Watcher(hook)
        await follow(watcher, "1", 10)
        await asyncio.sleep(30)
        kept = hook.closed
        await asyncio.sleep(60)
        closed = hook.closed
        await follow(watcher, "2", 10)
        return kept, closed

    assert run(main()) == (0, 1)
    assert [refs[0].job_id for _, refs in looks] == ["1", "2"]


def test_only_the_latest_look_is_kept_for_a_task_that_is_slow(run, looks):
    looks.answer = lambda now: Observation(statuses(state=str(now)), answered=True)

    async def main():
        watcher = Watcher(Hook())
        with watcher.subscribe([JobRef("1")], 30) as subscription:
            await asyncio.sleep(300)
            look = await subscription.next(1)
            return float(look.statuses["1"].state)

    assert run(main()) > 1260


def test_one_watcher_for_each_connection_and_loop(run, monkeypatch):
    monkeypatch.setattr(module, "SlurmHook", Hook)

    async def main():
        return watcher_for("a", None), watcher_for("a", None), watcher_for("b", None), watcher_for(None, None)

    a, again, b, local = run(main())
    assert a is again
    assert len({id(a), id(b), id(local)}) == 3
    assert run(main())[0] is not a


@pytest.mark.parametrize("where", ["_pause", "_find_place", "_look"])
def test_a_bug_of_the_loop_is_told_to_those_who_wait_and_the_next_look_comes(run, looks, monkeypatch, caplog, where):
    """A loop that died in silence would leave every task of that login node deferred for ever."""
    sound, faults = getattr(Watcher, where), [TypeError("bug")] * 2

    async def faulty(self):
        if faults:
            raise faults.pop()
        return await sound(self)

    monkeypatch.setattr(Watcher, where, faulty)
    looks.answer = lambda now: Observation(statuses(state="RUNNING"), answered=True)
    came = run(follow(Watcher(Hook()), "1", 600))
    assert "a look went wrong: TypeError('bug')" in came[0].problems[0]
    assert came[-1].statuses["1"].state == "RUNNING"
    assert "a look went wrong" in caplog.text
    assert len(looks) > 5
