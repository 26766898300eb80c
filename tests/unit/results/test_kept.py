"""Rewards by task, packed for Airflow's database and unpacked for a page."""

from __future__ import annotations

import base64
import json
import random
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_gym_provider.results import Task, TaskRewards, keep_rewards, kept_rewards
from airflow_gym_provider.results.kept import kept_step

REWARDS = st.none() | st.sampled_from([0.0, 0.25, 0.5, 1.0]) | st.floats(-1, 1).map(lambda value: round(value, 3))


def rewards(values, prompt: str = "7", names=None) -> TaskRewards:
    names = names or [str(at) for at in range(len(values))]
    return TaskRewards({name: Task("a", name, 1, value, prompt) for name, value in zip(names, values, strict=True)})


def values_of(kept) -> dict[str, float | None]:
    found = kept_rewards(json.loads(json.dumps(kept)))
    assert found is not None
    return {name: task.reward for name, task in found[0].items()}


@given(st.lists(REWARDS, min_size=1, max_size=60), st.booleans())
def test_what_is_kept_comes_back(values, named):
    names = [f"agent/{at * 7}" for at in range(len(values))] if named else None
    wanted = rewards(values, names=names)
    kept = keep_rewards(wanted, 10_000)
    if all(value is None for value in values):
        assert kept is None
        return
    assert values_of(kept) == {name: task.reward for name, task in wanted.items()}


def test_many_different_values_come_back_nearly():
    dice = random.Random(1)
    wanted = [dice.random() for _ in range(500)]
    found = values_of(keep_rewards(rewards(wanted), 10_000))
    assert max(abs(found[str(at)] - value) for at, value in enumerate(wanted)) < 0.01


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-3.0, 100.0), (1e6, 2e6)])
def test_what_is_rounded_says_by_how_much(low, high):
    dice = random.Random(1)
    wanted = [dice.uniform(low, high) for _ in range(500)]
    kept = json.loads(json.dumps(keep_rewards(rewards(wanted), 10_000)))
    step = kept_step(kept)
    assert step == pytest.approx((max(wanted) - min(wanted)) / 63, rel=1e-3)
    assert max(abs(values_of(kept)[str(at)] - value) for at, value in enumerate(wanted)) <= step / 2 * 1.01
    assert kept_step(keep_rewards(rewards(wanted[:64]), 10_000)) == 0.0
    for junk in (None, 5, {}, {"values": 3}, {"values": ["x"] * 64}, {"values": [10**400] * 64}):
        assert kept_step(junk) == 0.0


@pytest.mark.parametrize(("tasks", "size"), [(30, 150), (400, 220), (2000, 620)])
def test_it_is_small(tasks, size):
    dice = random.Random(2)
    kept = keep_rewards(rewards([float(dice.random() < 0.7) for _ in range(tasks)]), 1000)
    assert len(json.dumps(kept)) < size


def test_what_does_not_fit_is_not_kept():
    dice = random.Random(3)
    wanted = rewards([float(dice.random() < 0.7) for _ in range(12_000)])
    assert keep_rewards(wanted, 1000) is None
    kept = keep_rewards(wanted, 4000)
    size = len(json.dumps(kept))
    assert keep_rewards(wanted, size) == kept
    assert keep_rewards(wanted, size - 1) is None


def test_other_questions_have_another_fingerprint():
    first, same, other = (
        kept_rewards(keep_rewards(rewards([0.0, 1.0], prompt), 1000))[1] for prompt in ("7", "7", "8")
    )
    assert first == same != other
    assert kept_rewards(keep_rewards(rewards([0.0, 1.0], "0"), 1000))[1] == "", "unknown"


@pytest.mark.parametrize(
    "change",
    [
        {"packed": "!"},
        {"packed": base64.b64encode(b"no zlib").decode()},
        {"packed": base64.b64encode(zlib.compress(b"01\na")).decode()},
        {"packed": base64.b64encode(zlib.compress(b"0?")).decode()},
        {"packed": None},
        {"values": []},
        {"values": "x"},
        {"values": None},
        {"values": [10**400, 0]},
        {"values": [float("nan"), 0.0]},
    ],
)
def test_what_is_not_understood_is_none(change):
    kept = keep_rewards(rewards([0.0, 1.0]), 1000)
    assert kept_rewards(kept) is not None
    assert kept_rewards(kept | change) is None
    assert kept_rewards(None) is kept_rewards([]) is kept_rewards("text") is None


def test_a_bomb_does_not_go_off():
    bomb = base64.b64encode(zlib.compress(b"0" * 200_000_000, 9)).decode()
    assert kept_rewards({"packed": bomb, "values": [0.0], "prompts": ""}) is None
