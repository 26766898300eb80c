"""What counts as a number."""

from __future__ import annotations

import math

import pytest

from airflow_gym_provider.results.numbers import is_number


@pytest.mark.parametrize("value", [0, -1, 0.5, 1e308, 10**300])
def test_finite_numbers_are(value: float):
    assert is_number(value)


@pytest.mark.parametrize("value", [True, False, None, "1", b"1", [], {}, 1j, math.nan, math.inf, -math.inf, 10**400])
def test_what_only_looks_like_one_is_not(value: object):
    assert not is_number(value)
