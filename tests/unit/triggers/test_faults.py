"""What goes wrong between a triggerer and Slurm, for hours of a clock that the test holds: nothing is taken for an end
that is none, nothing is asked in haste, and what ended meanwhile is reported when it can be known.
"""

import asyncio
import itertools
import logging

import pytest
from fakes.answering import RATE_LIMIT, SLURMCTLD_AWAY, SLURMDBD_AWAY, TIMED_OUT, AnsweringHook, stamp

from airflow_gym_provider.exceptions import SlurmAuthenticationError, SlurmUnreachableError
from airflow_gym_provider.slurm.tables import SEPARATOR
from airflow_gym_provider.triggers import slurm as trigger_module
from airflow_gym_provider.triggers.slurm import SlurmJobTrigger
from airflow_gym_provider.triggers.watcher import Watcher

HOUR = 3600.0
STARTED = 1000.0  # the clock of the fixture `run`


@pytest.fixture
def hook():
    made = AnsweringHook()
    made.jobs = {"1": "RUNNING", "2": "PENDING", "3": "RUNNING"}
    return made


@pytest.fixture
def wait(run, hook, monkeypatch):
    """Wait for the jobs 1, 2 and 3 as three tasks do; `changes`: (time, what to do). Events and when they came."""
    monkeypatch.setattr(SlurmJobTrigger, "log", logging.Logger("quiet"))

    def waiting(*changes, hours=1.0):
        events = {}

        async def task(job_id):
            async for event in SlurmJobTrigger([job_id]).run():
                events[job_id] = (event.payload, asyncio.get_running_loop().time())

        async def change():
            for at, work in changes:
                await asyncio.sleep(at - asyncio.get_running_loop().time())
                work()

        async def main():
            watcher = Watcher(hook)
            monkeypatch.setattr(trigger_module, "watcher_for", lambda *_: watcher)
            tasks = [asyncio.create_task(each) for each in (task("1"), task("2"), task("3"), change())]
            await asyncio.wait(tasks, timeout=hours * HOUR)
            for each in tasks:
                each.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.sleep(200)

        run(main())
        return events

    return waiting


def becomes(hook, **states):
    return lambda: hook.jobs.update({name.lstrip("j"): state for name, state in states.items()})


def away(hook, begin, end, what):
    """From `begin` to `end` every look meets `what`."""

    def trouble(now):
        if not begin <= now < end:
            return {}
        if isinstance(what, Exception):
            raise what
        return what

    hook.trouble = trouble


def gaps(hook):
    times = [at for at, _ in hook.calls]
    return [b - a for a, b in itertools.pairwise(times)]


@pytest.mark.parametrize(
    "what",
    [
        {"sacct": SLURMDBD_AWAY},
        {"squeue": SLURMCTLD_AWAY},
        {"squeue": SLURMCTLD_AWAY, "sacct": SLURMDBD_AWAY},
        {"squeue": RATE_LIMIT},
        {"squeue": TIMED_OUT, "sacct": TIMED_OUT},
        SlurmUnreachableError("no route to host"),
        RuntimeError("the secrets backend is away"),
    ],
    ids=["slurmdbd", "slurmctld", "both", "rate-limit", "time-outs", "sshd", "a bug"],
)
def test_whatever_ends_while_all_is_away_is_reported_when_it_is_back(wait, hook, what):
    away(hook, 1100, 1100 + 3 * HOUR, what)
    events = wait((2000, becomes(hook, j1="COMPLETED", j2="CANCELLED by 0", j3="TIMEOUT")), hours=4)
    back = 1100 + 3 * HOUR
    assert {job: event["jobs"][0]["ending"] for job, (event, _) in events.items()} == {
        "1": "COMPLETED",
        "2": "CANCELLED",
        "3": "TIMEOUT",
    }
    if what in ({"squeue": SLURMCTLD_AWAY}, {"squeue": RATE_LIMIT}):
        assert events["1"][1] < back  # accounting alone says so, and nothing can change a COMPLETED
    assert all(back <= events[job][1] <= back + 601 for job in ("2", "3"))
    failing = [gap for (at, _), gap in zip(hook.calls[1:], gaps(hook), strict=True) if at < back]
    if what != {"sacct": SLURMDBD_AWAY}:
        assert len(failing) < 40
    assert max(failing) > 400
    assert max(failing) <= 601


def test_slurmdbd_away_for_20_looks_is_no_end_and_no_loss(wait, hook):
    away(hook, 1050, 1050 + 20 * 600, {"sacct": SLURMDBD_AWAY})
    hook.jobs["1"] = "COMPLETED"  # before anybody looked: squeue has forgotten it already
    events = wait((1050 + 19 * 600, becomes(hook, j3="FAILED")), hours=4)
    assert events["1"][0]["jobs"][0]["ending"] == "COMPLETED"
    assert events["3"][0]["jobs"][0]["ending"] == "FAILED"
    assert events["3"][1] >= 1050 + 20 * 600


def test_as_long_as_nothing_ends_slurmdbd_is_not_missed(wait, hook):
    away(hook, 1050, 99999, {"sacct": SLURMDBD_AWAY})
    assert wait() == {}
    assert max(gaps(hook)) < 31


@pytest.mark.parametrize("kept", [0, 30, 100, 200, 300, 400])
def test_a_connection_that_drops_in_the_middle_of_an_answer(wait, hook, kept):
    hook.garbled = lambda text, now: text[:kept] if 1100 < now < 1300 else text
    events = wait((1090, becomes(hook, j1="COMPLETED")), (1095, becomes(hook, j3="NODE_FAIL")))
    assert {job: event["jobs"][0]["ending"] for job, (event, _) in events.items()} == {
        "1": "COMPLETED",
        "3": "NODE_FAIL",
    }
    assert "2" not in events


@pytest.mark.parametrize(
    "garbled",
    [
        lambda text: text.replace(SEPARATOR, "|", 3),
        lambda text: text.replace("RUNNING", "RUNN"),
        lambda text: "".join(
            line[: len(line) // 2] + "\n" if SEPARATOR in line else line for line in text.splitlines(True)
        ),
        lambda text: text.replace("\n3" + SEPARATOR, "\nsqueue: warning\n3" + SEPARATOR),
        lambda text: text.replace("\n1" + SEPARATOR, "\n1" + SEPARATOR + "COMPLETED" + SEPARATOR),
        lambda text: "Welcome to login1!\n" + text.replace("\n", "\r\n"),
    ],
    ids=["other separators", "half a word", "half lines", "words between", "shifted", "banner and CRLF"],
)
def test_garbage_ends_nothing(wait, hook, garbled):
    hook.garbled = lambda text, now: garbled(text) if 1100 < now < 2400 else text
    events = wait((3500, becomes(hook, j1="COMPLETED")))
    assert set(events) == {"1"}
    assert 3500 < events["1"][1] < 3500 + 32


def test_an_answer_that_lost_a_row_loses_no_job(wait, hook):
    """Neither tool shows it, for less than the grace: then it is back."""
    hook.garbled = lambda text, now: (
        "".join(line for line in text.splitlines(True) if not line.startswith(f"1{SEPARATOR}"))
        if 1100 < now < 1155
        else text
    )
    assert wait() == {}


def test_a_job_that_slurm_has_forgotten_is_lost_after_the_grace(wait, hook):
    events = wait((1500, lambda: hook.jobs.pop("1")))
    assert events["1"][0]["reason"] == "lost"
    assert 1560 <= events["1"][1] <= 1500 + 60 + 2 * 32
    assert set(events) == {"1"}


@pytest.mark.parametrize("wrong", [-HOUR, HOUR])
def test_a_login_nodes_clock_may_be_off_by_an_hour(wait, hook, wrong):
    hook.clock = wrong
    hook.jobs["1"] = hook.jobs["3"] = "PENDING"
    # by its own clock job 1 starts two hours after the beginning, so nothing is expected for long
    for job in hook.jobs:
        hook.queue_cells[job] = {"START_TIME": stamp(STARTED + wrong + 2 * HOUR), "REASON": "Priority"}
    events = wait((STARTED + HOUR, becomes(hook, j1="CANCELLED by 0")), hours=1.5)
    assert events["1"][0]["jobs"][0]["ending"] == "CANCELLED"
    assert max(gaps(hook)) > 100


def test_a_login_node_that_refuses_is_not_asked_again(wait, hook):
    away(hook, 1100, 99999, SlurmAuthenticationError("login refused for user 'u'"))
    events = wait(hours=10)
    assert {event["reason"] for event, _ in events.values()} == {"refused"}
    assert "login refused" in events["1"][0]["text"]
    assert sum(at >= 1100 for at, _ in hook.calls) == 1


def test_an_outage_of_eight_hours_is_few_calls(wait, hook):
    away(hook, 1100, 1100 + 8 * HOUR, SlurmUnreachableError("no route to host"))
    wait(hours=8)
    assert len(hook.calls) < 70
    assert hook.most_at_once == 1
