"""The word that a trigger leaves for the pages: when there is news, and never in the way."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

from airflow_gym_provider.slurm.jobs import JobRef, JobStatus
from airflow_gym_provider.slurm.progress import Progress
from airflow_gym_provider.slurm.states import Ending
from airflow_gym_provider.triggers import live
from airflow_gym_provider.triggers.live import LiveWord
from airflow_gym_provider.triggers.observe import Observation

REF = JobRef("60", "c2")


def seen(state: str, done: int = 0, **status) -> Observation:
    job = JobStatus(REF, state=state, known=True, **status)
    return Observation({REF.key: job}, {REF.key: Progress("/r.jsonl", done, expected=40 if done else 0)})


def test_a_change_of_state_is_news_at_once_and_the_same_state_is_none():
    word = LiveWord(REF)
    told = word.values(seen("PENDING", reason="Priority", start_estimate="2026-01-01T02:00:00"), now=100.5)
    assert told == {
        "job_id": "60;c2",
        "state": "PENDING",
        "reason": "Priority",
        "elapsed": 0,
        "nodes": "",
        "start_estimate": "2026-01-01T02:00:00",
        "ended": False,
        "at": 100,
    }
    assert word.values(seen("PENDING", reason="Priority"), now=10_000) is None
    assert word.values(seen("PENDING", reason="Resources"), now=10_001)["reason"] == "Resources"
    running = word.values(seen("RUNNING", done=3, nodes="n1", elapsed=7), now=10_002)
    assert (running["done"], running["expected"], running["elapsed"], running["nodes"]) == (3, 40, 7, "n1")


def test_progress_is_news_when_it_is_first_counted_and_then_four_times_a_minute():
    word = LiveWord(REF)
    assert "done" not in word.values(seen("RUNNING", elapsed=5), now=0)
    assert word.values(seen("RUNNING", done=1), now=1)["done"] == 1
    assert word.values(seen("RUNNING", done=2), now=15) is None
    assert word.values(seen("RUNNING", done=2), now=16)["done"] == 2
    assert word.values(seen("RUNNING", done=2), now=600) is None


def test_a_look_may_leave_out_what_has_not_changed():
    word = LiveWord(REF)
    assert word.values(seen("RUNNING", elapsed=5, nodes="n1"), now=100)
    told = word.values(Observation(progress={REF.key: Progress("/r.jsonl", 3, expected=40)}), now=160)
    assert (told["state"], told["nodes"], told["elapsed"], told["done"]) == ("RUNNING", "n1", 65, 3)
    assert word.values(Observation(), now=1000) is None


def test_an_end_is_told_and_what_is_unknown_is_not():
    word = LiveWord(REF)
    assert word.values(seen("COMPLETED", live=False, ending=Ending.COMPLETED), now=0)["ended"] is True
    assert word.values(Observation({REF.key: JobStatus(REF)}), now=1) is None
    assert word.values(Observation(), now=2) is None
    assert LiveWord(REF).values(Observation({REF.key: JobStatus(REF)}), now=1) is None


async def test_airflow_that_does_not_take_it_is_no_trouble(monkeypatch, caplog):
    def refuse(*_):
        raise RuntimeError("secret: hunter2")

    monkeypatch.setattr(live, "_push", refuse)
    caplog.set_level(logging.DEBUG, live.__name__)
    await LiveWord(REF).tell(SimpleNamespace(), seen("RUNNING"))
    assert "RuntimeError" in caplog.text
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize("map_index", [None, 3])
async def test_it_is_left_with_the_task_instance(monkeypatch, map_index):
    from airflow.sdk.execution_time.xcom import XCom

    left = []
    monkeypatch.setattr(XCom, "set", lambda key, value, **place: left.append((key, value["state"], place)))
    ti = SimpleNamespace(dag_id="d", task_id="t", run_id="r", map_index=map_index)
    word = LiveWord(REF)
    await word.tell(ti, seen("RUNNING"))
    await word.tell(ti, seen("RUNNING"))
    await word.tell(None, seen("COMPLETED"))
    place = {"dag_id": "d", "task_id": "t", "run_id": "r", "map_index": -1 if map_index is None else 3}
    assert left == [("gym_live", "RUNNING", place)]


def test_a_worker_that_waits_itself_leaves_it_too(caplog):
    left = []
    ti = SimpleNamespace(xcom_push=lambda key, value: left.append((key, value["state"])))
    word = LiveWord(REF)
    word.tell_here(ti, seen("RUNNING"))
    word.tell_here(ti, seen("RUNNING"))
    assert left == [("gym_live", "RUNNING")]
    caplog.set_level(logging.DEBUG, live.__name__)
    LiveWord(REF).tell_here(SimpleNamespace(), seen("RUNNING"))
    assert "gym_live could not be left: AttributeError" in caplog.text
