"""The trigger: its arguments as a format, its deadline, its kill."""

import asyncio
import json
import logging
import re
from contextlib import suppress
from datetime import timedelta

import pytest

from airflow_gym_provider.exceptions import SlurmUnreachableError
from airflow_gym_provider.slurm.remote import Answer
from airflow_gym_provider.slurm.states import Ending
from airflow_gym_provider.slurm.status import JobStatus
from airflow_gym_provider.triggers import kills
from airflow_gym_provider.triggers import slurm as module
from airflow_gym_provider.triggers.observe import Observation
from airflow_gym_provider.triggers.slurm import SlurmJobTrigger
from airflow_gym_provider.triggers.task_state import WAITS_AGAIN
from airflow_gym_provider.triggers.watcher import Subscription

SAID = []


class Listener(logging.Handler):
    """Airflow's own loggers print past pytest's capture."""

    def emit(self, record):
        SAID.append(record.getMessage())


@pytest.fixture(autouse=True)
def said(monkeypatch):
    """What triggers have said."""
    SAID.clear()
    log = logging.Logger("trigger")
    log.addHandler(Listener())
    monkeypatch.setattr(SlurmJobTrigger, "log", log)
    return SAID


PLACE = {"job_dir": "/out/run/gpqa", "job_name": "gym-gpqa-1", "benchmark": "gpqa"}


class Watcher:
    """Gives the looks of `script`, a function of the time; notes what is run."""

    def __init__(self, script=lambda now: None):
        self.script = script
        self.ran = []
        self.trouble = []
        self.seconds = 0.0
        self.kills = kills.Kills(self)

    def subscribe(self, refs, interval, progress=None, tails=None):
        watcher = self

        class Taking(Subscription):
            def __enter__(self):
                self.task = asyncio.get_running_loop().create_task(self.feed())
                return self

            def __exit__(self, *exc):
                self.task.cancel()

            async def feed(self):
                while True:
                    await asyncio.sleep(interval)
                    look = watcher.script(asyncio.get_running_loop().time())
                    if look is not None:
                        self.give(look)

        return Taking(refs, interval, progress or {})

    async def run(self, script, timeout):
        self.ran.append((asyncio.get_running_loop().time(), script.text))
        await asyncio.sleep(self.seconds)
        if self.trouble:
            raise self.trouble.pop(0)
        mark = f"\n@@{script.nonce} "
        places = re.findall(r"^gym_given=\((\d+)\)$", script.text, re.MULTILINE)
        done = "".join(f"{mark}scancel {index} 0 {job_id}\n" for index, job_id in enumerate(places))
        return Answer(0, f"{mark}begin\n{done}{mark}end 0\n", "")

    async def script_options(self):
        return {}


@pytest.fixture
def watcher(monkeypatch):
    made = Watcher()
    monkeypatch.setattr(module, "watcher_for", lambda *_: made)
    return made


async def fire(trigger):
    return [event.payload async for event in trigger.run()]


def test_arguments_survive_and_are_plain():
    trigger = SlurmJobTrigger(["60;c2"], ssh_conn_id="login", deadline=5.0, **PLACE)
    path, arguments = trigger.serialize()
    assert path == f"{SlurmJobTrigger.__module__}.{SlurmJobTrigger.__qualname__}"
    assert json.loads(json.dumps(arguments)) == arguments
    assert SlurmJobTrigger(**arguments).serialize() == (path, arguments)


def test_arguments_of_other_releases_are_taken():
    assert SlurmJobTrigger(job_ids=["60"]).serialize()[1]["deadline"] is None
    assert SlurmJobTrigger(job_ids=["60"], something_new=1).job_ids == ["60"]


@pytest.mark.parametrize("job_id", ["12; touch pwned", "12;-M", "--help", "1,2", "1_[0-3]", "7\n", "$(id)", "٣", ""])
def test_what_is_no_job_never_gets_into_the_look_that_all_share(job_id):
    with pytest.raises(ValueError, match=r"job id|cluster name"):
        SlurmJobTrigger(["60", job_id])


@pytest.mark.parametrize("path", [{"job_dir": "/a\0b"}, {"job_dirs": ["/a\0b"]}, {"rollouts_path": "/a\udce9"}])
def test_nor_does_a_path_that_no_shell_can_be_given(path):
    with pytest.raises(ValueError, match="cannot be passed"):
        SlurmJobTrigger(["60"], **path)


def test_ids_name_their_cluster():
    refs = SlurmJobTrigger(["60", "61;c2"], job_dir="/d").refs()
    assert [(ref.job_id, ref.cluster, ref.job_dir) for ref in refs] == [("60", None, "/d"), ("61", "c2", "/d")]


@pytest.mark.parametrize("folders", [["/a", None], ["/a"], ["/a", None, "/more"]])
def test_jobs_may_have_directories_of_their_own(folders):
    trigger = SlurmJobTrigger(["60", "61"], job_dir="/d", job_dirs=folders)
    assert [ref.job_dir for ref in trigger.refs()] == ["/a", "/d"]
    assert SlurmJobTrigger(**trigger.serialize()[1]).refs() == trigger.refs()


def test_one_event_at_the_end_and_each_change_in_the_log(run, watcher, said):
    def script(now):
        ended = now > 1300
        status = JobStatus(
            SlurmJobTrigger(["60"]).refs()[0],
            state="COMPLETED" if ended else "RUNNING",
            live=not ended,
            known=True,
            ending=Ending.COMPLETED if ended else None,
        )
        return Observation({"60": status}, answered=True)

    watcher.script = script
    events = run(fire(SlurmJobTrigger(["60"])))
    assert [event["reason"] for event in events] == ["ended"]
    assert said == ["job 60: RUNNING", "job 60: COMPLETED after 00:00:00"]
    assert watcher.ran == []


def test_the_deadline_cancels_once_then_says_so(run, watcher):
    events = run(fire(SlurmJobTrigger(["60"], deadline=1060.0, **PLACE)))
    assert [event["reason"] for event in events] == ["deadline"]
    assert "cancelled job 60" in events[0]["text"]
    assert [at for at, _ in watcher.ran] == [1060.0]


def test_no_event_comes_while_the_worker_that_deferred_may_still_be_leaving(run, watcher):
    async def main(not_before):
        events = await fire(SlurmJobTrigger(["60"], deadline=1002.0, not_before=not_before, **PLACE))
        return events[0]["reason"], asyncio.get_running_loop().time()

    assert run(main(1010.0)) == ("deadline", 1010.0)
    assert watcher.ran[0][0] == 1002.0
    assert run(main(900.0)) == ("deadline", 1002.0)
    assert run(main(99999.0)) == ("deadline", 1012.0)  # clocks that differ cost no more than that


def test_a_deadline_that_was_over_before_a_restart(run, watcher):
    assert run(fire(SlurmJobTrigger(["60"], deadline=10.0, **PLACE)))[0]["reason"] == "deadline"


def test_a_deadline_while_the_login_node_is_away(run, watcher):
    watcher.trouble = [SlurmUnreachableError("away")] * 2
    events = run(fire(SlurmJobTrigger(["60"], deadline=1060.0, **PLACE)))
    assert len(watcher.ran) == 3
    assert "cancelled job 60" in events[0]["text"]
    watcher.trouble = [SlurmUnreachableError("away")] * 50
    assert "could not be cancelled: away" in run(fire(SlurmJobTrigger(["60"], deadline=1060.0, **PLACE)))[0]["text"]


def test_a_kill_cancels(run, watcher, said):
    run(SlurmJobTrigger(["60"], **PLACE).on_kill())
    assert len(watcher.ran) == 1
    assert "cancelled job 60" in said[0]


@pytest.fixture
def killed_in(run, monkeypatch):
    """Has Airflow end a trigger whose task is in some state, and its job alive or not; what Slurm was asked."""

    def kill(state, *, lives=True):
        async def ask(ti, max_tries):
            assert ti == "the task instance"
            if isinstance(state, Exception):
                raise state
            return state

        async def look(trigger):
            return lives

        monkeypatch.setattr(module, "has_supervisor", lambda: True)
        monkeypatch.setattr(module, "state_for_trigger", ask)
        monkeypatch.setattr(SlurmJobTrigger, "_lives", look)
        monkeypatch.setattr(SlurmJobTrigger, "task_instance", "the task instance")
        run(SlurmJobTrigger(["60"], **PLACE).on_kill())

    return kill


@pytest.mark.parametrize(
    "state", ["failed", "success", "skipped", "removed", "none", "scheduled", "running", WAITS_AGAIN]
)
def test_a_task_that_was_marked_or_cleared_has_its_job_cancelled(killed_in, watcher, said, state):
    killed_in(state)
    assert "cancelled job 60" in said[0]


def test_a_trigger_that_another_triggerer_has_taken_over_cancels_nothing(killed_in, watcher, said):
    killed_in("deferred")
    assert (watcher.ran, said) == ([], ["not cancelled: the task still waits, and another triggerer watches its job"])


def test_a_task_that_another_triggerer_has_woken_keeps_what_it_does_next(killed_in, watcher, said):
    killed_in("running", lives=False)
    assert (watcher.ran, said) == ([], ["nothing to cancel: the job has ended, and the task goes on (running)"])


@pytest.mark.parametrize(("state", "cancels"), [("deferred", 1), ("running", 0), ("failed", 0)])
def test_a_deadline_cancels_only_while_the_task_waits(run, watcher, monkeypatch, state, cancels):
    async def ask(ti, max_tries):
        return state

    monkeypatch.setattr(module, "has_supervisor", lambda: True)
    monkeypatch.setattr(module, "state_for_trigger", ask)
    monkeypatch.setattr(SlurmJobTrigger, "task_instance", "the task instance")
    events = run(fire(SlurmJobTrigger(["60"], deadline=1060.0, **PLACE)))
    assert [event["reason"] for event in events] == ["deadline"]
    assert len(watcher.ran) == cancels


def test_without_a_word_from_airflow_a_person_is_believed_to_be_behind_it(killed_in, watcher, said):
    killed_in(ConnectionError("away"))
    assert "away" in said[0]
    assert "cancelled job 60" in said[1]


@pytest.mark.parametrize(("listed", "lives"), [(True, True), (False, False)])
def test_whether_the_job_lives_is_asked_of_slurm(run, watcher, monkeypatch, listed, lives):
    ref = SlurmJobTrigger(["60"]).refs()[0]
    status = JobStatus(ref, state="", live=listed, known=True, ending=None if listed else Ending.TIMEOUT)
    monkeypatch.setattr(kills, "read_answer", lambda *_: Observation({"60": status}))
    assert run(SlurmJobTrigger(["60"], **PLACE)._lives()) is lives
    assert "squeue" in watcher.ran[0][1]


def test_a_kill_outlives_airflows_repeated_cancels(run, watcher, said):
    async def killed_again_and_again():
        watcher.seconds = 0.3
        kill = asyncio.create_task(SlurmJobTrigger(["60"], **PLACE).on_kill())
        while not kill.done():
            await asyncio.sleep(0.02)
            kill.cancel("user-action")
        await kill

    run(killed_again_and_again())
    assert len(watcher.ran) == 1
    assert "cancelled job 60" in said[0]


def test_what_a_kill_found_is_said_before_the_trigger_is_over(run, watcher, said):
    """As triggerer_job_runner.run_trigger does it, with its repeated cancels."""

    async def run_trigger(trigger):
        try:
            with suppress(asyncio.CancelledError):
                await asyncio.wait_for(trigger.on_kill(), 30)
        finally:
            await trigger.cleanup()

    async def killed_again_and_again():
        watcher.seconds = 0.3
        kill = asyncio.create_task(run_trigger(SlurmJobTrigger(["60"], **PLACE)))
        while not kill.done():
            await asyncio.sleep(0.02)
            kill.cancel("user-action")

    run(killed_again_and_again())
    assert "cancelled job 60" in said[0]


def test_kills_that_come_together_are_a_few_scripts_and_each_hears_of_its_own(run, watcher, said):
    watcher.seconds = 2.0

    async def main():
        triggers = [SlurmJobTrigger([str(n)], **PLACE | {"job_dir": f"/out/{n}/gpqa"}) for n in range(100, 350)]
        await asyncio.gather(*(trigger.on_kill() for trigger in triggers))

    run(main())
    assert len(watcher.ran) == 3
    assert sorted(said) == [f"cancelled job {n}" for n in range(100, 350)]


def test_a_kill_whose_time_is_over_goes_out_all_the_same(run, watcher, said):
    watcher.seconds = 30.0

    async def main():
        triggers = [SlurmJobTrigger([str(n)], **PLACE | {"job_dir": f"/out/{n}/gpqa"}) for n in range(100, 110)]
        await asyncio.gather(*(trigger.on_kill() for trigger in triggers))
        await asyncio.sleep(100)

    run(main())
    assert all("no answer in time" in words for words in said)
    assert len(said) == 10
    assert {job for _, text in watcher.ran for job in re.findall(r"gym_given=\((\d+)\)", text)} == {
        str(n) for n in range(100, 110)
    }


def test_one_that_failed_together_with_others_is_told_so(run, watcher, said):
    watcher.seconds, watcher.trouble = 1.0, [SlurmUnreachableError("away")] * 4

    async def main():
        await asyncio.gather(*(SlurmJobTrigger([str(n)], **PLACE).on_kill() for n in range(100, 110)))

    run(main())
    assert len(said) == 10
    assert all("could not be cancelled: away" in words for words in said)


def test_a_kill_never_raises(run, watcher, said):
    watcher.trouble = [SlurmUnreachableError("away")]
    run(SlurmJobTrigger(["60"], **PLACE).on_kill())
    assert "could not be cancelled: away" in said[0]


def test_a_sensors_jobs_are_nobodys_to_cancel(run, watcher):
    run(SlurmJobTrigger(["60"]).on_kill())
    assert watcher.ran == []


def test_cleanup_cancels_nothing(run, watcher):
    run(SlurmJobTrigger(["60"], **PLACE).cleanup())
    assert watcher.ran == []


@pytest.mark.parametrize("given", [{"poll_interval": 0}, {"poll_interval": "soon"}, {"lost_after": float("nan")}])
def test_numbers_that_would_stop_the_look_that_all_share(given):
    with pytest.raises(ValueError, match=r"is .*; write"):
        SlurmJobTrigger(["7"], **given)


def test_times_are_stored_as_seconds():
    stored = SlurmJobTrigger(["7"], poll_interval=timedelta(minutes=1), lost_after=timedelta(0)).serialize()[1]
    assert (stored["poll_interval"], stored["lost_after"]) == (60.0, 0.0)
