"""A clear is told from a retry, whatever has been remembered."""

import json
from types import SimpleNamespace

import pytest

from airflow_gym_provider.operators._memory import KEY, SUCCESS, ChainMemory

RETRIES = 10_000


def begin(context, max_tries, now=1.0):
    memory = ChainMemory.of(context)
    context["ti"].max_tries = max_tries
    return memory, memory.begin(context, RETRIES, now)


def test_a_first_try_and_its_retries_are_one_budget(context):
    memory, cleared = begin(context, RETRIES, 100.0)
    assert (cleared, memory.generation, memory.new_budget, memory.first_start) == (False, 0, False, 100.0)
    memory, cleared = begin(context, RETRIES, 200.0)
    assert (cleared, memory.new_budget, memory.first_start, memory.starts) == (False, False, 100.0, 2)


def test_a_red_task_that_is_cleared_gets_a_new_budget_in_the_same_directory(context):
    memory, _ = begin(context, RETRIES)
    memory.unexpected = memory.outages = 3
    memory.save()
    memory, cleared = begin(context, RETRIES + 4, 50.0)
    assert (cleared, memory.new_budget, memory.generation, memory.first_start) == (True, True, 0, 50.0)
    assert memory.unexpected == memory.outages == 0
    assert begin(context, RETRIES + 4)[1] is False


def test_a_green_task_that_is_cleared_starts_all_anew(context):
    memory, _ = begin(context, RETRIES)
    memory.outcome, memory.budget_base, memory.place = SUCCESS, 3, {"job_id": "7"}
    memory.save()
    memory, cleared = begin(context, RETRIES + 2)
    assert (cleared, memory.new_budget, memory.budget_base, memory.place, memory.outcome) == (True, False, 0, {}, "")
    first = memory.generation
    assert first > 0
    memory.outcome = SUCCESS
    memory.save()
    assert begin(context, RETRIES + 3)[0].generation > first


@pytest.mark.parametrize("tries", [1, 3])
def test_tasks_that_are_cleared_together_get_one_number_however_often_each_was_tried(context, tries):
    context["dag_run"] = SimpleNamespace(clear_number=0)
    memory, _ = begin(context, RETRIES)
    memory.outcome = SUCCESS
    memory.save()
    context["dag_run"].clear_number = 2
    assert begin(context, RETRIES + tries)[0].generation == 2


def test_a_store_that_was_lost_is_no_clear(context):
    begin(context, RETRIES)
    context["task_state_store"].clear()
    memory, cleared = begin(context, RETRIES)
    assert (cleared, memory.new_budget, memory.generation) == (False, False, 0)


def test_what_another_release_wrote_is_read(context):
    context["task_state_store"].set(KEY, {"generation": 2, "from_the_future": 1})
    assert ChainMemory.of(context).generation == 2
    assert ChainMemory.of(context).own, "it may have had jobs"


def test_it_is_json(context):
    begin(context, RETRIES)
    json.dumps(context["task_state_store"][KEY])
