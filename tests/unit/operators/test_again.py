"""The gate and the report outlive a login node that is away for a minute, and are tried as often as somebody says."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import DAG, TaskGroup
from airflow.sdk.bases import operator as base
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from airflow.serialization.serialized_objects import DagSerialization

from airflow_gym_provider.exceptions import SlurmAuthenticationError, SlurmSettingsError, SlurmUnreachableError
from airflow_gym_provider.operators._again import told_at_once
from airflow_gym_provider.operators.gate import GymGateOperator
from airflow_gym_provider.operators.report import GymReportOperator

HALF_A_MINUTE = timedelta(seconds=30)
SEVEN = {"retries": 7, "retry_delay": timedelta(seconds=7)}
OPERATORS = [(GymGateOperator, {}, "candidate"), (GymReportOperator, {"eval_task_ids": "e"}, "title")]


@pytest.mark.parametrize(
    ("defaults", "given", "retries", "delay"),
    [
        ({}, {}, 2, HALF_A_MINUTE),
        (SEVEN, {}, 7, timedelta(seconds=7)),
        ({"retries": 0}, {}, 0, HALF_A_MINUTE),
        (SEVEN, {"retries": 1}, 1, timedelta(seconds=7)),
        ({}, {"retries": 0}, 0, HALF_A_MINUTE),
        ({}, {"retry_delay": timedelta(minutes=1)}, 2, timedelta(minutes=1)),
        ({}, {"default_args": SEVEN}, 7, timedelta(seconds=7)),
    ],
)
@pytest.mark.parametrize("where", ["dag", "group"])
@pytest.mark.parametrize(("operator", "needs", "field"), OPERATORS)
def test_ours_are_the_last_that_count(
    operator: Any, needs: dict[str, Any], field: str, where: str, defaults: Any, given: Any, retries: int, delay: Any
):
    """The scheduler's copy of the task as well, of a mapped one, too."""
    at_dag, at_group = (defaults, {}) if where == "dag" else ({}, defaults)
    with DAG("d", schedule=None, default_args=at_dag) as dag, TaskGroup("g", default_args=at_group):
        operator(task_id="one", **needs, **given)
        operator.partial(task_id="many", **needs, **given).expand(**{field: ["a", "b"]})
    stored = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    for name in ("g.one", "g.many"):
        for task in (dag.get_task(name), stored.get_task(name)):
            assert (task.retries, task.retry_delay) == (retries, delay), name
    unmapped = dag.get_task("g.many").unmap({field: "a"})
    assert (unmapped.retries, unmapped.retry_delay) == (retries, delay)


@pytest.mark.parametrize(("operator", "needs", "field"), OPERATORS)
def test_a_mapped_task_has_them_where_airflow_asks_no_operator_for_its_own(
    monkeypatch: pytest.MonkeyPatch, operator: Any, needs: dict[str, Any], field: str
):
    """As in Airflow 3.3.0; a newer one reads them from the signature of `__init__`."""
    monkeypatch.setattr(base, "_get_operator_defaults", lambda _: base.OPERATOR_DEFAULTS.copy(), raising=False)
    with DAG("d", schedule=None):
        made = operator.partial(task_id="many", **needs).expand(**{field: ["a", "b"]})
    assert (made.retries, made.retry_delay) == (2, HALF_A_MINUTE)


@pytest.mark.parametrize(
    ("error", "again"), [(SlurmAuthenticationError, False), (SlurmSettingsError, False), (SlurmUnreachableError, True)]
)
def test_a_refused_login_is_not_tried_again_and_one_that_is_away_is(error: type[AirflowException], again: bool):
    with pytest.raises(AirflowException, match="it says why") as raised, told_at_once():
        raise error("it says why")
    assert isinstance(raised.value, AirflowFailException) is not again
