"""However many runs there are: the same few questions to the database, and bounded pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlencode

import pytest
from airflow import settings
from fakes.evaluations import FIRST_NIGHT
from sqlalchemy import event

from airflow_gym_provider.ui.queries import HISTORY_RUNS, OVERVIEW_RUNS

BENCHMARKS = [f"bench{number:02}" for number in range(20)]
RUN = {"run_id": f"scheduled__{FIRST_NIGHT.replace(day=2).isoformat()}"}
PAGES = {
    "": 6,
    "dags/ours/benchmark?name=bench07": 4,
    "dags/ours/compare?name=bench07": 3,
    f"dags/ours/chain?task_id=bench07&{urlencode(RUN)}": 3,
    f"dags/ours/report?{urlencode(RUN)}": 5,
}
"""The most SELECTs of a page, the one for Airflow's session among them."""


@contextmanager
def counted() -> Iterator[list[str]]:
    """The statements that go to the database meanwhile."""
    seen: list[str] = []

    def note(_connection, _cursor, statement, *_):
        seen.append(statement)

    event.listen(settings.engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(settings.engine, "before_cursor_execute", note)


@pytest.mark.parametrize("page", PAGES)
def test_the_number_of_questions_is_the_same_for_any_number_of_runs(us, evaluations, page):
    numbers = []
    for nights in (2, 40):
        evaluations.nights("ours", BENCHMARKS, nights)
        us.get(page)  # what Airflow remembers for a while, it may
        with counted() as statements:
            assert us.get(page).status_code == 200
        assert all(statement.lstrip().upper().startswith("SELECT") for statement in statements), statements
        numbers.append(len(statements))
    assert numbers[0] == numbers[1]
    assert numbers[1] <= PAGES[page]


def test_five_hundred_runs_of_twenty_benchmarks(us, evaluations):
    evaluations.nights("ours", BENCHMARKS, HISTORY_RUNS + 3)
    overview = us.get("")
    assert overview.elapsed.total_seconds() < 5  # a second on a machine of its own: tests/bench/bench_pages.py
    assert len(re.findall("<tr data-benchmark", overview.text)) == len(BENCHMARKS)
    assert f"{OVERVIEW_RUNS} runs" in overview.text
    history = us.get("dags/ours/benchmark?name=bench07")
    assert history.elapsed.total_seconds() < 5
    assert len(re.findall("<tr data-run", history.text)) == HISTORY_RUNS
    assert len(history.content) < 1_000_000
