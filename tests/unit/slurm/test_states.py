"""The one table of states: unknown is not finished."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_gym_provider.slurm.states import Ending, State, cancelled_by, ending_of, is_live, state_word

ENDS = [
    "BOOT_FAIL",
    "CANCELLED",
    "COMPLETED",
    "DEADLINE",
    "FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "TIMEOUT",
]


@pytest.mark.parametrize("state", [str(state) for state in State])
def test_only_ends_are_ends(state: str) -> None:
    assert is_live(state) == (state not in ENDS)
    assert ending_of(state) == (Ending(state) if state in ENDS else None)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("CANCELLED by 1000", "CANCELLED"),
        ("CANCELLED+", "CANCELLED"),
        ("OUT_OF_ME+", "OUT_OF_MEMORY"),
        ("completed", "COMPLETED"),
        ("  RUNNING ", "RUNNING"),
        ("FOO", "FOO"),
        ("RE+", "RE+"),
        ("+", "+"),
        ("", ""),
    ],
)
def test_the_first_word_counts_and_cut_words_are_completed(text: str, word: str) -> None:
    assert state_word(text) == word


@pytest.mark.parametrize("text", ["", "FOO", "COMPLETE", "COMPLE+", "LOST", "CANCEL", "N/A", "RE+"])
def test_what_is_not_known_to_be_an_end_is_live(text: str) -> None:
    assert is_live(text)
    assert ending_of(text) is None


@pytest.mark.parametrize(
    ("text", "uid"),
    [
        ("CANCELLED by 1000", 1000),
        ("CANCELLED by 0", 0),
        ("CANCELLED", None),
        ("CANCELLED by ", None),
        ("FAILED", None),
    ],
)
def test_who_cancelled(text: str, uid: int | None) -> None:
    assert cancelled_by(text) == uid


@given(st.text())
def test_any_text_has_a_meaning(text: str) -> None:
    assert is_live(text) == (ending_of(text) is None)
    cancelled_by(text)
