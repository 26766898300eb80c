"""How the interval follows what the jobs are doing."""

import pytest

from airflow_gym_provider.slurm.jobs import JobRef, JobStatus
from airflow_gym_provider.triggers.pace import MOST, NOW, Outlook, next_wait, soonest

NOON = 1_800_000_000.0  # 2027-01-15T08:00:00Z on the login node, when the event loop says 1000


def outlook(now=1000.0, **fields):
    made = Outlook(now)
    made.change(JobStatus(JobRef("1"), **({"known": True} | fields)), now, NOON)
    return made


def test_what_has_just_come_or_changed_may_change_again():
    assert Outlook(1000.0).quiet_for(1000, 30) == NOW
    assert outlook(state="PENDING", reason="JobHeldUser").quiet_for(1010, 30) == NOW


@pytest.mark.parametrize("reason", ["JobHeldUser", "job requeued in held state", "Dependency", "BeginTime"])
def test_a_parked_job_is_nothing_to_wait_for(reason):
    assert outlook(state="PENDING", reason=reason).quiet_for(1100, 30) == float("inf")


def test_a_start_that_is_expected_by_the_login_nodes_clock():
    waiting = outlook(state="PENDING", reason="Priority", start_estimate="2027-01-15T09:00:00Z")
    assert waiting.quiet_for(1600, 30) == 3000
    assert waiting.quiet_for(1000 + 3590, 30) == 10
    assert outlook(state="PENDING", reason="Resources").quiet_for(1100, 30) == 30
    assert outlook(state="PENDING", reason="Resources").quiet_for(5000, 30) == 400


def test_a_job_that_runs_may_end_any_time_and_its_rollouts_say_when_it_is_soon():
    running = outlook(state="RUNNING", elapsed=100, time_limit=3700)
    assert running.quiet_for(2000, 30) == 30
    assert running.quiet_for(4590, 30) == 10  # its walltime
    running.count(100, 1000, 100, 1000)
    running.count(200, 1000, 100, 1100)
    assert running.quiet_for(1100, 30) == 30
    assert running.quiet_for(1880, 30) == 20
    running.count(1000, 1000, 200, 1900)
    assert running.quiet_for(1900, 30) == 0


@pytest.mark.parametrize("fields", [{"state": "COMPLETING"}, {"known": False}, {"missing": True, "known": False}])
def test_between_two_states_it_is_soon(fields):
    assert outlook(**fields).quiet_for(9000, 30) == NOW


def test_the_wait_grows_while_nothing_is_to_be_expected_and_is_back_at_once():
    waits = [30.0]
    for _ in range(6):
        waits.append(next_wait(waits[-1], 30, 30, float("inf"), changed=False))
    assert waits == [30, 45, 67.5, 101.25, 120, 120, 120]
    assert next_wait(120, 30, 30, float("inf"), changed=True) == 30
    assert next_wait(120, 30, 30, 100, changed=False) == 50
    assert next_wait(120, 30, 30, 30, changed=False) == 30
    assert next_wait(120, 30, 30, NOW, changed=False) == 30
    assert next_wait(600, 600, 30, float("inf"), changed=False) == 600


def test_the_wait_shrinks_when_something_is_near_and_never_below_the_floor():
    assert next_wait(120, 120, 5, NOW, changed=True) == 120 / MOST
    assert next_wait(120, 120, 60, NOW, changed=True) == 60


def test_the_least_of_all_decides():
    jobs = [outlook(state="PENDING", reason="JobHeldUser"), outlook(state="RUNNING"), outlook(state="COMPLETING")]
    assert soonest(jobs, 2000, 30, NOW) == NOW
    assert soonest(jobs, 2000, 30, 30) == 30
    assert soonest([], 2000, 30, 30) == float("inf")
