"""The table of endings: what each means for the chain, and in which words it is told."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from airflow_gym_provider.chain import Action, CancelMark, ChainHistory, Limits, after_reading, decide
from airflow_gym_provider.chain.endings import clock
from airflow_gym_provider.slurm.jobs import JobRef, JobStatus
from airflow_gym_provider.slurm.states import Ending

HOUR = 3600
LIMITS = Limits(resumable=True, max_retries=2, walltime=4 * HOUR, compute="cluster")
ONCE = Limits(resumable=False, walltime=4 * HOUR)


@dataclass(frozen=True)
class Verdict:
    complete: bool
    reason: str = "4 of 4 rollouts in /r"
    looked: bool = True


FULL, SHORT = Verdict(True), Verdict(False, "97 of 100 rollouts in /r")


def job(job_id: int, ending: Ending | None, elapsed: int = 60, code: int = 0, **more) -> JobStatus:
    fields = {"state": str(ending or ""), "live": False, "known": True, "exit_code": code, "signal": 0} | more
    return JobStatus(JobRef(str(job_id)), ending=ending, elapsed=elapsed, **fields)


def chain(*endings, **more) -> ChainHistory:
    jobs = [item if isinstance(item, JobStatus) else job(100 + at, item) for at, item in enumerate(endings)]
    return ChainHistory(tuple(jobs), **more)


LIVE = job(9, None, state="RUNNING", live=True)
PENDING = job(9, None, state="PENDING", live=True)
MISSING = job(9, None, state="", known=False, missing=True)
UNASKED = job(9, None, state="", known=False, live=True)
HALF_ENDED = job(9, None, state="TIMEOUT", known=False)
FAILED = job(1, Ending.FAILED, code=1)
PROGRESS = job(1, Ending.FAILED, code=75)
TIMEOUT = job(1, Ending.TIMEOUT, 4 * HOUR)
NEVER_BEGAN = job(1, Ending.CANCELLED, 0, cancelled_by=0)


def test_a_chain_without_jobs_starts():
    decision = decide(chain(), LIMITS)
    assert (decision.action, decision.reason, decision.job_id) == (Action.SUBMIT, "no job yet; starting", None)


@pytest.mark.parametrize("live", [LIVE, PENDING])
@pytest.mark.parametrize("limits", [LIMITS, ONCE, Limits(max_walltime=0)])
def test_a_live_job_is_adopted_whatever_the_limits_say(live, limits):
    decision = decide(chain(FAILED, FAILED, FAILED, live), limits)
    assert (decision.action, decision.job_id) == (Action.ADOPT, "9")
    assert live.state in decision.reason


def test_a_live_job_of_an_earlier_budget_or_before_the_newest_is_adopted_too():
    assert decide(chain(LIVE, base=1), LIMITS).action is Action.ADOPT
    assert decide(chain(LIVE, FAILED, wait=10), LIMITS).job_id == "9"


def test_a_submission_that_was_cut_off_is_waited_for():
    decision = decide(chain(TIMEOUT, wait=17), LIMITS)
    assert (decision.action, decision.wait) == (Action.WAIT, 17)


@pytest.mark.parametrize("job_", [UNASKED, HALF_ENDED, MISSING])
def test_what_is_unknown_is_waited_for_and_never_judged(job_):
    for history in (chain(job_), chain(job_, base=1)):
        decision = decide(history, LIMITS)
        assert (decision.action, decision.job_id) == (Action.WAIT, "9")
        assert decision.wait > 0


def test_a_missing_job_tells_how_long_it_will_be_waited_for():
    decision = decide(chain(MISSING, unknown_for=12.5), LIMITS)
    assert decision.wait == 48
    assert "unknown to squeue and sacct" in decision.reason


def test_the_state_of_a_job_that_accounting_lags_behind_is_shown():
    assert "(TIMEOUT)" in decide(chain(HALF_ENDED), LIMITS).reason


def test_a_lost_job_is_replaced_three_times_in_a_row_and_no_more():
    lost = job(9, Ending.LOST, 0)
    assert decide(chain(MISSING, unknown_for=60), LIMITS).action is Action.SUBMIT
    decision = decide(chain(lost, lost, lost), LIMITS)
    assert decision.action is Action.SUBMIT
    assert decision.reason.endswith("resuming (3 of 3)")
    assert decision.retries == 0
    assert decide(chain(lost, lost, lost, lost), LIMITS).action is Action.STOP
    assert decide(chain(lost, lost, TIMEOUT, lost, lost), LIMITS).action is Action.SUBMIT


def test_a_lost_job_of_a_benchmark_that_cannot_resume_is_a_failure():
    decision = decide(chain(MISSING, unknown_for=60), ONCE)
    assert decision.action is Action.STOP
    assert "lost" in decision.reason


@pytest.mark.parametrize("ending", [Ending.TIMEOUT, Ending.PREEMPTED, Ending.NODE_FAIL])
def test_endings_that_are_nobodys_fault_go_on_for_free(ending):
    decision = decide(chain(*[job(1, ending, 4 * HOUR)] * 9), LIMITS)
    assert (decision.action, decision.retries, decision.used) == (Action.SUBMIT, 0, 36 * HOUR)
    assert decision.reason == f"{ending} after 4:00:00; 36:00:00 used; resuming"


def test_the_reason_tells_the_cap():
    decision = decide(chain(TIMEOUT, TIMEOUT, TIMEOUT), Limits(True, 3, 48 * HOUR, 4 * HOUR))
    assert decision.reason == "TIMEOUT after 4:00:00; 12:00:00 of 48:00:00 used; resuming"


def test_exit_code_75_goes_on_for_free_and_resets_nothing():
    assert decide(chain(*[PROGRESS] * 5), LIMITS).action is Action.SUBMIT
    assert decide(chain(*[PROGRESS] * 5), LIMITS).retries == 0
    assert "75:0 (progress made)" in decide(chain(PROGRESS), LIMITS).reason
    assert decide(chain(FAILED, PROGRESS, FAILED), LIMITS).reason == "FAILED 1:0; retry 2 of 2"
    assert decide(chain(FAILED, PROGRESS, FAILED, FAILED), LIMITS).action is Action.STOP


def test_exit_code_76_stops():
    decision = decide(chain(job(1, Ending.FAILED, code=76)), LIMITS)
    assert (decision.action, decision.reason) == (Action.STOP, "FAILED 76:0; nothing left to retry; chain stopped")


@pytest.mark.parametrize("ending", [Ending.FAILED, Ending.BOOT_FAIL, Ending.DEADLINE, Ending.OUT_OF_MEMORY])
def test_failures_cost_a_retry_each(ending):
    failed = job(1, ending, code=1)
    assert decide(chain(failed), LIMITS).reason.endswith("; retry 1 of 2")
    assert decide(chain(failed, failed), LIMITS).action is Action.SUBMIT
    decision = decide(chain(failed, failed, failed), LIMITS)
    assert (decision.action, decision.retries) == (Action.STOP, 3)
    assert decision.reason.endswith("; all 2 retries are used; chain stopped")


def test_no_retries_means_none():
    assert decide(chain(FAILED), Limits(True, 0)).action is Action.STOP


def test_memory_says_what_to_do():
    decision = decide(chain(job(1, Ending.OUT_OF_MEMORY, 900, 0, signal=125)), LIMITS)
    assert decision.reason == (
        "OUT_OF_MEMORY after 0:15:00 (raise the memory request: compute.cluster.extra_args.mem); retry 1 of 2"
    )


def test_a_failure_by_a_signal_and_one_without_a_code_are_told():
    assert decide(chain(job(1, Ending.FAILED, signal=9)), LIMITS).reason.startswith("FAILED 0:9;")
    assert decide(chain(job(1, Ending.BOOT_FAIL, code=None, signal=None)), LIMITS).reason.startswith("BOOT_FAIL 0:0;")


@pytest.mark.parametrize(
    ("job_", "words"),
    [
        (job(1, Ending.CANCELLED, 0, cancelled_by=1000), "CANCELLED by 1000; chain stopped"),
        (job(1, Ending.CANCELLED, 33, cancelled_by=1000), "CANCELLED by 1000; chain stopped"),
        (job(1, Ending.CANCELLED, 33, cancelled_by=0), "CANCELLED by 0; chain stopped"),
        (job(1, Ending.CANCELLED, 0), "CANCELLED; chain stopped"),
    ],
)
def test_a_cancel_by_somebody_stops(job_, words):
    for limits in (LIMITS, ONCE):
        decision = decide(chain(job_), limits)
        assert (decision.action, decision.reason) == (Action.STOP, words)


def test_a_job_that_never_began_is_replaced_three_times_at_most():
    decision = decide(chain(NEVER_BEGAN), LIMITS)
    assert (decision.action, decision.resubmits, decision.retries) == (Action.SUBMIT, 1, 0)
    assert decision.reason.startswith("CANCELLED by 0 before it began")
    assert decision.reason.endswith("resubmitting (1 of 3)")
    assert decide(chain(*[NEVER_BEGAN] * 3), LIMITS).action is Action.SUBMIT
    assert decide(chain(*[NEVER_BEGAN, TIMEOUT] * 3, NEVER_BEGAN), LIMITS).action is Action.STOP
    assert decide(chain(NEVER_BEGAN), ONCE).action is Action.STOP


def test_our_own_cancel_is_no_reason_to_stop():
    marks = (CancelMark(1, ("7",), "first"), CancelMark(5, ("1",), "execution_timeout"))
    for cancelled in (job(1, Ending.CANCELLED, 33, cancelled_by=1000), NEVER_BEGAN):
        decision = decide(chain(cancelled, marks=marks), LIMITS)
        assert (decision.action, decision.retries, decision.resubmits) == (Action.SUBMIT, 0, 0)
        assert "on our request (execution_timeout)" in decision.reason
        decision = decide(chain(cancelled, marks=marks), ONCE)
        assert decision.action is Action.STOP
        assert "execution_timeout" in decision.reason


def test_a_cancel_by_hand_stops_the_chain_whatever_the_job_was_doing():
    marks = (CancelMark(1, ("1",), "the task was cleared"), CancelMark(5, ("1",), "by hand: airflow gym cancel by me"))
    for cancelled in (job(1, Ending.CANCELLED, 33, cancelled_by=0), NEVER_BEGAN):
        for limits in (LIMITS, ONCE):
            history = chain(cancelled, marks=marks)
            decision = decide(history, limits)
            assert decision.action is Action.STOP
            assert "(by hand: airflow gym cancel by me); chain stopped" in decision.reason
            assert history.cancelled_by_us(cancelled) is None


def test_a_job_that_ended_before_a_cancel_by_hand_is_judged_by_its_end():
    marks = (CancelMark(5, ("1",), "by hand: airflow gym cancel by me"),)
    assert decide(chain(job(1, Ending.COMPLETED), marks=marks), LIMITS, FULL).action is Action.DONE


def test_completed_counts_only_with_its_results():
    decision = decide(chain(job(1, Ending.COMPLETED)), LIMITS, FULL)
    assert (decision.action, decision.reason) == (Action.DONE, "COMPLETED after 0:01:00; 4 of 4 rollouts in /r")
    assert decide(chain(job(1, Ending.COMPLETED)), ONCE, FULL).action is Action.DONE
    assert decide(chain(job(1, Ending.COMPLETED)), LIMITS).action is Action.WAIT


def test_completed_but_incomplete_is_a_failure_that_says_n_of_m():
    done = job(1, Ending.COMPLETED)
    decision = decide(chain(done), LIMITS, SHORT)
    assert (decision.action, decision.retries) == (Action.SUBMIT, 1)
    assert decision.reason == "COMPLETED but incomplete: 97 of 100 rollouts in /r; retry 1 of 2"
    decision = decide(chain(done, FAILED, done), LIMITS, SHORT)
    assert (decision.action, decision.retries) == (Action.STOP, 3)
    decision = decide(chain(done), ONCE, SHORT)
    assert decision.action is Action.STOP
    assert "97 of 100" in decision.reason


@pytest.mark.parametrize(("verdict", "settled"), [(SHORT, False), (Verdict(False, "unreadable", looked=False), True)])
def test_results_that_may_still_come_or_could_not_be_read_are_waited_for(verdict, settled):
    decision = decide(chain(job(1, Ending.COMPLETED)), LIMITS, verdict, settled=settled)
    assert (decision.action, decision.retries) == (Action.WAIT, 0)
    assert decision.wait > 0


def test_complete_results_do_not_make_a_failed_job_green():
    assert decide(chain(FAILED), LIMITS, FULL).action is Action.SUBMIT
    assert decide(chain(job(1, Ending.OUT_OF_MEMORY, 900)), Limits(True, 0), FULL).action is Action.STOP


@pytest.mark.parametrize("ended", [TIMEOUT, FAILED, PROGRESS, job(1, Ending.PREEMPTED)])
def test_what_cannot_resume_never_runs_twice(ended):
    decision = decide(chain(ended), ONCE)
    assert decision.action is Action.STOP
    assert decision.reason.endswith("not resumable, so it does not run again")


def test_the_cap_ends_the_chain_with_sum_and_limit():
    limits = Limits(True, 2, 6 * HOUR, 2 * HOUR)
    short = job(1, Ending.TIMEOUT, 2 * HOUR)
    assert decide(chain(short, short), limits).action is Action.SUBMIT
    decision = decide(chain(short, short, short), limits)
    assert decision.action is Action.STOP
    assert decision.reason == (
        "TIMEOUT after 2:00:00; max_walltime is used up: 6:00:00 of 6:00:00 (21600 s of 21600 s); chain stopped"
    )
    for last in (FAILED, NEVER_BEGAN, job(1, Ending.LOST, 0), PROGRESS):
        decision = decide(chain(short, short, short, last), limits)
        assert decision.action is Action.STOP
        assert "max_walltime" in decision.reason


@pytest.mark.parametrize(
    ("walltime", "cap", "used", "expected"),
    [
        (7200, None, 0, None),
        (None, None, 99, None),
        (7200, 21600, 0, None),
        (7200, 21600, 14400, None),
        (7200, 21600, 14462, 7138),
        (7200, 3600, 0, 3600),
        (None, 3600, 0, 3600),
        (None, 3600, 3599, 1),
    ],
)
def test_the_next_job_ends_within_the_cap(walltime, cap, used, expected):
    history = chain(job(1, Ending.TIMEOUT, used)) if used else chain()
    assert decide(history, Limits(True, 2, cap, walltime)).walltime == expected


def test_a_clear_begins_a_new_budget():
    decision = decide(chain(FAILED, FAILED, FAILED, base=3), LIMITS)
    assert (decision.action, decision.used, decision.retries) == (Action.SUBMIT, 0, 0)
    assert "3 earlier jobs" in decision.reason
    assert decide(chain(job(1, Ending.COMPLETED), base=1), ONCE, FULL).action is Action.SUBMIT
    decision = decide(chain(FAILED, FAILED, FAILED, FAILED, base=3), LIMITS)
    assert decision.reason == "FAILED 1:0; retry 1 of 2"


def test_a_sum_is_not_guessed_while_accounting_is_away():
    decision = decide(chain(UNASKED, TIMEOUT), LIMITS)
    assert decision.action is Action.WAIT
    assert "how long" in decision.reason
    assert decide(chain(UNASKED, TIMEOUT, base=1), LIMITS).action is Action.SUBMIT


def test_jobs_that_accounting_has_purged_keep_their_share():
    gone = job(1, None, 0, state="", known=False, missing=True)
    history = chain(gone, TIMEOUT, recorded_walltime=30 * HOUR, recorded_retries=2)
    assert (history.used, history.retries) == (34 * HOUR, 2), "the counters are those of the jobs before the newest"
    assert decide(history, Limits(True, 9, 20 * HOUR)).action is Action.STOP
    assert chain(gone, FAILED, recorded_retries=2).retries == 3
    assert chain(gone, FAILED, LIVE, recorded_retries=2).retries == 2
    assert chain(TIMEOUT, TIMEOUT, recorded_walltime=30 * HOUR).used == 8 * HOUR


def test_what_a_budget_has_spent_is_told_without_its_newest_job_too():
    assert decide(chain(), LIMITS).before == decide(chain(TIMEOUT, base=1), LIMITS).before == (0, 0)
    adopted = decide(chain(TIMEOUT, FAILED, LIVE), LIMITS)
    assert (adopted.used, adopted.retries, adopted.before) == (4 * HOUR + 120, 1, (4 * HOUR + 60, 1))
    assert decide(chain(FAILED, FAILED), LIMITS).before == (60, 1)
    assert decide(chain(FAILED, job(1, Ending.COMPLETED)), LIMITS, SHORT).before == (60, 1)
    gone = job(1, None, 0, state="", known=False, missing=True)
    assert decide(chain(gone, FAILED, recorded_walltime=HOUR, recorded_retries=1), LIMITS).before == (HOUR, 1)


def test_an_incomplete_job_counts_while_its_successor_lives():
    assert decide(chain(job(1, Ending.COMPLETED), LIVE), LIMITS).before == (60, 1)


def test_a_decision_tells_how_the_newest_job_ended():
    assert decide(chain(TIMEOUT), LIMITS).ending is Ending.TIMEOUT
    assert decide(chain(), LIMITS).ending is None


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00:00"), (62, "0:01:02"), (172800, "48:00:00")])
def test_durations_read_as_slurm_writes_them(seconds, text):
    assert clock(seconds) == text


@pytest.mark.parametrize(
    ("verdict", "action", "words"),
    [
        (Verdict(True, "2 of 4 rollouts in /r: accepted"), Action.DONE, "2 of 4 rollouts in /r: accepted"),
        (Verdict(False, "2 of 4 rollouts in /r"), Action.STOP, "2 of 4 rollouts in /r; chain stopped"),
        (Verdict(False, "not read: /r; away", looked=False), Action.WAIT, "not read: /r; away"),
    ],
)
def test_what_is_done_by_its_lines_is_judged_again_by_its_rollouts(verdict, action, words):
    by_lines = decide(chain(job(1, Ending.COMPLETED)), LIMITS, FULL)
    decision = after_reading(by_lines, verdict)
    assert (decision.action, decision.reason) == (action, f"COMPLETED after 0:01:00; {words}")
    assert (decision.job_id, decision.used, decision.wait) == ("1", 60, 30 if action is Action.WAIT else None)
