"""What Airflow answers about one task instance."""

import pytest
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import CommsDecoder, GetTaskStates, OKResponse, TaskStatesResult
from airflow.sdk.execution_time.xcom import XCom

from airflow_gym_provider.triggers.task_state import WAITS_AGAIN, ask_from_trigger, has_supervisor, state_for_trigger


class Comms(CommsDecoder):
    """A supervisor with one answer."""

    def __init__(self, found):
        self.found = found

    async def asend(self, msg):
        assert msg == GetTaskStates(dag_id="d", task_ids=["eval"], run_ids=["r"], map_index=3)
        return self.found


class Ti:
    """A mapped task instance."""

    dag_id, task_id, run_id, map_index = "d", "eval", "r", 3


@pytest.mark.parametrize(
    ("states", "state"), [({"r": {"eval_3": "failed"}}, "failed"), ({"r": {"eval_3": None}}, "none"), ({}, "removed")]
)
async def test_the_state_of_the_task_that_is_asked_about(monkeypatch, states, state):
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", Comms(TaskStatesResult(task_states=states)), raising=False)
    assert has_supervisor()
    assert await ask_from_trigger(Ti()) == state


async def test_another_answer_is_none(monkeypatch):
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", Comms(OKResponse(ok=True)), raising=False)
    with pytest.raises(RuntimeError, match="OKResponse"):
        await ask_from_trigger(Ti())


def test_a_plain_process_has_nobody_to_ask(monkeypatch):
    monkeypatch.delattr(task_runner, "SUPERVISOR_COMMS", raising=False)
    assert not has_supervisor()


@pytest.mark.parametrize(
    ("state", "left", "told"),
    [
        ("deferred", {"max_tries": 10_000}, "deferred"),
        ("deferred", {"max_tries": 10_001}, WAITS_AGAIN),
        ("deferred", None, "deferred"),
        ("failed", {"max_tries": 10_001}, "failed"),
    ],
)
async def test_a_task_that_was_cleared_and_waits_again_is_told_from_one_that_waits(monkeypatch, state, left, told):
    """Its next try may be quicker than the triggerer that is to end the trigger of the one before."""

    async def ask(ti):
        return state

    monkeypatch.setattr("airflow_gym_provider.triggers.task_state.ask_from_trigger", ask)
    monkeypatch.setattr(XCom, "get_one", lambda *, key, **_: left if key == "gym_job" else None)
    assert await state_for_trigger(Ti(), 10_000) == told
    assert await state_for_trigger(Ti(), None) == state, "a trigger of an older release does not know"
