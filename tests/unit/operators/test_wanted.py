"""A worker process that is ended: by somebody who wants the task to end, or by a machine that goes down."""

import pytest
from airflow.sdk.exceptions import AirflowTaskTimeout
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import CommsDecoder

from airflow_gym_provider.operators import _cluster
from airflow_gym_provider.operators._wanted import reason_to_go_on, timed_out


class Ti:
    """A task instance whose supervisor answers with these states, or with an error."""

    dag_id, task_id, run_id, map_index = "d", "eval", "r", 3

    def __init__(self, states):
        self.states = states

    def get_task_states(self, *, dag_id, task_ids, run_ids, map_index):
        assert (dag_id, task_ids, run_ids, map_index) == ("d", ["eval"], ["r"], 3)
        if isinstance(self.states, Exception):
            raise self.states
        return self.states


@pytest.fixture
def supervised(monkeypatch):
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", object.__new__(CommsDecoder), raising=False)


def in_state(state):
    return {"ti": Ti({"r": {"eval_3": state}})}


@pytest.mark.parametrize("state", ["failed", "success", "skipped", "upstream_failed", "removed", "restarting"])
def test_what_somebody_has_marked_or_cleared_is_cancelled(supervised, state):
    assert reason_to_go_on(in_state(state)) is None


def test_what_is_no_longer_there_is_cancelled(supervised):
    assert reason_to_go_on({"ti": Ti({})}) is None


@pytest.mark.parametrize("state", ["running", "queued", "scheduled", "deferred", "up_for_retry", None])
def test_a_process_that_is_ended_while_its_task_goes_on_leaves_the_job(supervised, state):
    assert f"its state is {state or 'none'}" in reason_to_go_on(in_state(state))


def test_without_an_answer_from_airflow_the_job_is_left(supervised):
    assert "does not answer (ConnectionError)" in reason_to_go_on({"ti": Ti(ConnectionError())})


def test_without_a_supervisor_there_is_nobody_to_take_the_job_up(monkeypatch):
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", object(), raising=False)
    assert reason_to_go_on(in_state("running")) is None


def test_a_task_whose_time_is_over_is_told_from_one_that_is_killed():
    assert not timed_out()
    try:
        raise AirflowTaskTimeout
    except AirflowTaskTimeout:
        assert timed_out()


def test_a_kill_that_nobody_wants_says_so_and_cancels_nothing():
    said = _cluster.kill(None, "why", ["7"], lambda: "a deploy")
    assert said == "not cancelled: a deploy; the job goes on, and the next try takes it up"
