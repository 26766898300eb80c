"""What comes after each kind of failure, and that no DAG default changes how often."""

from datetime import timedelta

import pytest
from airflow.sdk import DAG
from airflow.sdk.definitions.retry_policy import RetryAction
from airflow.sdk.exceptions import AirflowNotFoundException, AirflowTaskTimeout

from airflow_gym_provider.chain.errors import BusyError, ChainError, CutOffError, ForeignDirectoryError
from airflow_gym_provider.exceptions import (
    ChainRetry,
    ChainStopped,
    SlurmAnswerCutError,
    SlurmAuthenticationError,
    SlurmSettingsError,
    SlurmShellError,
    SlurmUnknownHostError,
    SlurmUnreachableError,
)
from airflow_gym_provider.operators._memory import ChainMemory
from airflow_gym_provider.operators.gym import GymEvalOperator, GymSubmitOperator
from airflow_gym_provider.operators.retry import ENDLESS, ChainRetryPolicy


def decide(error, context=None):
    return ChainRetryPolicy().evaluate(error, 1, ENDLESS, context)


def test_a_chain_goes_on_with_its_own_delay_and_reason(context):
    decision = decide(ChainRetry("TIMEOUT; resuming", 7), context)
    assert (decision.action, decision.retry_delay, decision.reason) == (
        RetryAction.RETRY,
        timedelta(seconds=7),
        "TIMEOUT; resuming",
    )
    assert decide(ChainRetry("FAILED 1:0"), context).retry_delay is None


@pytest.mark.parametrize(
    "error",
    [
        ChainStopped("CANCELLED by 1000; chain stopped"),
        SlurmAuthenticationError("login refused"),
        SlurmSettingsError("no host"),
        ForeignDirectoryError("somebody else's"),
        AirflowTaskTimeout("Timeout"),
    ],
)
def test_what_people_must_look_at_fails_at_once(error, context):
    decision = decide(error, context)
    assert decision.action is RetryAction.FAIL
    assert decision.reason


@pytest.mark.parametrize(
    "error",
    [
        SlurmUnreachableError("no route"),
        SlurmAnswerCutError("cut"),
        CutOffError("cut"),
        ChainRetry("AssocMaxSubmitJobLimit", passing=True),
        BusyError("another submission holds the lock"),
    ],
)
def test_what_passes_is_waited_for_without_end_and_less_and_less_often(error, context):
    decisions = [decide(error, context) for _ in range(40)]
    assert {decision.action for decision in decisions} == {RetryAction.RETRY}
    delays = [decision.retry_delay.total_seconds() for decision in decisions]
    assert delays[:4] == [15, 30, 60, 120]
    assert max(delays) == delays[-1] == 600
    assert "no retry counted" in decisions[0].reason


@pytest.mark.row("something fails that nobody foresaw")
def test_the_unexpected_is_tried_five_times(context):
    decisions = [decide(ZeroDivisionError("oops"), context) for _ in range(5)]
    assert [decision.action for decision in decisions] == [RetryAction.RETRY] * 4 + [RetryAction.FAIL]
    assert "ZeroDivisionError" in decisions[-1].reason


@pytest.mark.parametrize(
    "error",
    [
        ChainError("/out cannot be written: No space left on device"),
        SlurmUnknownHostError("login.example: Name or service not known"),
        SlurmShellError("the shell ended with status 127 before the script did"),
    ],
)
def test_what_may_pass_and_may_be_a_mistake_is_tried_five_times_in_four_minutes_with_its_words(error, context):
    decisions = [decide(error, context) for _ in range(5)]
    assert [decision.action for decision in decisions] == [RetryAction.RETRY] * 4 + [RetryAction.FAIL]
    assert sum(decision.retry_delay.total_seconds() for decision in decisions[:4]) == 225
    assert decisions[0].reason == f"{error}, no. 1 of 5"
    assert decisions[-1].reason == f"{error}, no. 5: giving up; clear the task to go on with the same chain"


def test_a_connection_that_is_not_there_is_named(context):
    decision = decide(AirflowNotFoundException("The conn_id `nope` isn't defined"), context)
    assert decision.action is RetryAction.RETRY
    assert decision.reason == "The conn_id `nope` isn't defined, no. 1 of 5"


def test_a_success_or_a_clear_starts_the_count_anew(context):
    for _ in range(4):
        decide(ZeroDivisionError(), context)
    memory = ChainMemory.of(context)
    context["ti"].max_tries = ENDLESS
    memory.begin(context, ENDLESS, 1.0)
    context["ti"].max_tries = ENDLESS + 4
    memory.begin(context, ENDLESS, 2.0)
    assert decide(ZeroDivisionError(), context).action is RetryAction.RETRY


def test_without_a_context_there_is_still_a_decision():
    assert decide(SlurmUnreachableError("x")).action is RetryAction.RETRY


@pytest.mark.parametrize("operator", [GymEvalOperator, GymSubmitOperator])
@pytest.mark.parametrize("given", [{}, {"retries": 0}, {"retries": 3}])
@pytest.mark.parametrize("default", [{}, {"retries": 0}, {"retries": 2}])
def test_retries_are_the_chains_own_mapped_or_not(operator, given, default):
    with DAG("d", schedule=None, default_args=default):
        plain = operator(task_id="plain", config="x.yaml", **given)
        mapped = operator.partial(task_id="mapped", config="x.yaml", **given).expand(benchmark=["a", "b"])
    for task in (plain, mapped):
        assert task.retries == ENDLESS
        assert isinstance(task.retry_policy, ChainRetryPolicy)
        assert task.has_retry_policy


def test_the_delay_between_retries_stays_the_users():
    with DAG("d", schedule=None, default_args={"retry_delay": timedelta(seconds=2)}):
        plain = GymEvalOperator(task_id="plain", config="x.yaml")
        mapped = GymEvalOperator.partial(task_id="mapped").expand(config=["x.yaml"])
    assert plain.retry_delay == mapped.retry_delay == timedelta(seconds=2)


@pytest.mark.parametrize("own", [False, True])
def test_somebody_elses_directory_is_left_with_a_clear_where_the_chain_never_had_a_job(context, own):
    """Six digits name the directories of a DAG run's map indexes: two of them may be alike."""
    memory = ChainMemory.of(context)
    memory.begin(context, ENDLESS, 1.0)
    memory.own = own
    memory.save()
    decision = decide(ForeignDirectoryError("the run directory belongs to {map_index: 3}"), context)
    assert (decision.action, "clear the task" in decision.reason) == (RetryAction.FAIL, not own)
    context["ti"].max_tries += 1
    memory = ChainMemory.of(context)
    memory.begin(context, ENDLESS, 2.0)
    assert (memory.generation, memory.new_budget, memory.foreign) == (0 if own else 1, own, False)
    assert "clear the task" not in decide(ForeignDirectoryError("x")).reason
