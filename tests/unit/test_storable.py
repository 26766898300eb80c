"""What is stored is what PostgreSQL takes, wherever it came from."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_gym_provider.operators._failure import without_secrets
from airflow_gym_provider.operators._timeline import leave_chain
from airflow_gym_provider.storable import storable
from airflow_gym_provider.triggers.events import EventReason, job_event

TEXTS = st.text(st.characters(codec=None), max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
HOSTILE = "NUL \x00, half of a pair \ud83d, whole \U0001f600"
MENDED = "NUL \ufffd, half of a pair \ufffd, whole \U0001f600"


def taken(value: Any) -> bool:
    """Whether PostgreSQL's jsonb takes it, by its manual: UTF-8, no NUL, and JSON's own numbers."""
    return b"\0" not in json.dumps(value, ensure_ascii=False, allow_nan=False).replace("\\u0000", "\0").encode()


@given(VALUES)
def test_whatever_comes_is_made_fit_for_postgresql_and_what_fits_stays(value: Any):
    kept = storable(value)
    assert taken(kept)
    assert storable(kept) == kept


@given(st.text(st.characters(exclude_characters="\x00", codec="utf-8")))
def test_a_text_that_can_be_kept_is_not_changed(text: str):
    assert storable({text: [text]}) == {text: [text]}


@pytest.mark.parametrize(
    "stored",
    [
        lambda: job_event(EventReason.LOST, HOSTILE)["text"],
        lambda: without_secrets(HOSTILE),
        lambda: storable({HOSTILE: float("nan")}).popitem()[0],
    ],
    ids=["an event", "a reason", "a metric's name"],
)
def test_words_of_a_cluster_are_stored_without_what_postgresql_refuses(stored: Any):
    assert stored() == MENDED


def test_a_chain_is_left_for_the_pages_in_words_that_postgresql_takes():
    left: dict[str, Any] = {}
    leave_chain(SimpleNamespace(xcom_push=lambda **given: left.update(given)), {"reason": HOSTILE})
    assert left["value"] == {"reason": MENDED}
