"""One try of one chain, on a cluster that is a list of looks."""

import json
from contextlib import suppress
from typing import ClassVar

import pytest
from airflow.sdk.exceptions import AirflowFailException
from fakes.chain_task import DONE, MISSING, SUBMITTED, job, look, with_model

from airflow_gym_provider.chain import (
    ChainError,
    CutOffError,
    ForeignDirectoryError,
    Outcome,
    OutcomeKind,
    Submission,
)
from airflow_gym_provider.chain.history import CancelMark
from airflow_gym_provider.config import load_submit_config
from airflow_gym_provider.exceptions import ChainRetry, ChainStopped
from airflow_gym_provider.operators import _held
from airflow_gym_provider.operators._chain import Waiting
from airflow_gym_provider.operators._cluster import Cluster
from airflow_gym_provider.operators._memory import SUCCESS, ChainMemory
from airflow_gym_provider.operators._plan import ChainPlan, chain_key, make_plan
from airflow_gym_provider.operators._reading import MAX_UNREAD
from airflow_gym_provider.operators._submit import run_files, settle, submit
from airflow_gym_provider.operators.retry import ChainRetryPolicy
from airflow_gym_provider.results import Summary, Verdict
from airflow_gym_provider.slurm.accounting import JobRow
from airflow_gym_provider.slurm.remote import Answer
from airflow_gym_provider.slurm.states import Ending


def test_a_first_try_submits_and_waits(cluster, task, context):
    cluster.looks, cluster.outcomes = [look()], [SUBMITTED]
    assert task().start() == Waiting("7")
    assert cluster.log == ["look", "submit None"]
    pushed = context["ti"].xcoms["gym_job"]
    assert (pushed["job_id"], pushed["benchmark"]) == ("7", "gpqa")
    assert pushed["job_dir"].startswith(pushed["run_dir"])


def test_a_job_of_an_earlier_try_is_taken_up(cluster, task):
    cluster.looks = [look(job(7))]
    assert task().start() == Waiting("7")
    assert cluster.log == ["look"]


def test_an_unrecorded_job_is_recorded_with_what_those_before_it_have_used(cluster, task, monkeypatch):
    cluster.looks = [look(job(6, Ending.FAILED, exit_code=1, elapsed=30), job(7, elapsed=40))]
    cluster.outcomes = [Outcome(OutcomeKind.ADOPTED, "job 7 is RUNNING", "7")]
    monkeypatch.setattr(cluster, "found", ("7",))
    assert task().start() == Waiting("7")
    assert (cluster.submissions[-1].used, cluster.submissions[-1].before) == (70, (30, 1))


def test_a_harness_numbers_count_from_the_chains_first_job_on(cluster, task):
    first = job(6, Ending.TIMEOUT, rows=(JobRow("6", "TIMEOUT", submit="1970-01-01T00:01:00"),))
    cluster.looks = [look(first, job(7, Ending.COMPLETED), verdict=DONE)]
    task().start()
    assert cluster.since == 60.0


def test_what_is_done_already_is_returned_without_waiting(cluster, task, context):
    cluster.looks = [look(job(7, Ending.COMPLETED, live=False, elapsed=30), verdict=DONE)]
    result = task().start()
    assert (result["state"], result["job_ids"], result["metrics"]) == ("COMPLETED", ["7"], {"mean/reward": 0.5})
    assert ChainMemory.of(context).outcome == SUCCESS
    assert json.loads(json.dumps(result)) == result


@pytest.mark.parametrize(("job_ended", "verdict"), [(Ending.COMPLETED, DONE), (Ending.CANCELLED, None)])
def test_a_try_that_only_finds_how_the_chain_ended_leaves_its_place_too(cluster, task, context, job_ended, verdict):
    """Airflow has wiped what the try before it left."""
    cluster.looks = [look(job(7, job_ended, live=False, elapsed=100_000), verdict=verdict)]
    with suppress(ChainStopped):
        task().start()
    pushed = context["ti"].xcoms["gym_job"]
    assert (pushed["job_id"], pushed["benchmark"]) == ("7", "gpqa")


def test_an_event_only_wakes(cluster, task):
    """COMPLETED says the event, cancelled says the cluster."""
    chain = task()
    cluster.looks = [look(job(7)), look(job(7, Ending.CANCELLED, cancelled_by=1000))]
    chain.start()
    with pytest.raises(ChainStopped, match="CANCELLED by 1000"):
        chain.resume(chain.plan.as_dict(), {"reason": "ended", "jobs": [{"ending": "COMPLETED"}]})


def test_an_event_of_an_older_attempt_waits_again(cluster, task):
    chain = task()
    cluster.looks = [look(job(7))]
    chain.start()
    assert chain.resume(chain.plan.as_dict(), {"reason": "ended"}) == Waiting("7")


def test_a_fresh_process_goes_on_with_the_plan_alone(cluster, task):
    first = task()
    cluster.looks = [look(job(7)), look(job(7, Ending.COMPLETED), verdict=DONE)]
    first.start()
    assert task().resume(json.loads(json.dumps(first.plan.as_dict())), {"reason": "ended"})["job_id"] == "7"


@pytest.mark.parametrize(
    ("ending", "fields", "delay", "words"),
    [
        (Ending.TIMEOUT, {"elapsed": 62}, 2.0, "TIMEOUT after 0:01:02"),
        (Ending.FAILED, {"exit_code": 1, "signal": 0}, 2.0, "retry 1 of 2"),
    ],
)
def test_a_resumable_end_is_the_next_try(cluster, task, ending, fields, delay, words):
    chain = task()
    cluster.looks = [look(job(7)), look(job(7, ending, **fields))]
    chain.start()
    with pytest.raises(ChainRetry, match=words) as caught:
        chain.resume(chain.plan.as_dict(), {"reason": "ended"})
    assert caught.value.delay == delay
    assert "submit None" not in cluster.log


def test_an_end_that_costs_nothing_is_resumed_soon_whatever_the_retry_delay(cluster, task):
    chain = task(retry_delay=3600.0)
    cluster.looks = [look(job(7)), look(job(7, Ending.TIMEOUT))]
    chain.start()
    with pytest.raises(ChainRetry) as caught:
        chain.resume(chain.plan.as_dict(), {"reason": "ended"})
    assert caught.value.delay == 30.0


def test_the_next_try_submits_the_next_job(cluster, task):
    cluster.looks, cluster.outcomes = [look(job(7, Ending.TIMEOUT))], [SUBMITTED]
    assert task().start() == Waiting("7")


def test_results_may_come_late(cluster, task):
    chain = task()
    late = look(job(7, Ending.COMPLETED), verdict=MISSING)
    cluster.looks = [look(job(7)), late, late, late, look(job(7, Ending.COMPLETED), verdict=DONE)]
    chain.start()
    assert chain.resume(chain.plan.as_dict(), {"reason": "ended"})["complete"] is True


def test_results_that_cannot_be_read_are_no_verdict(cluster, task):
    chain = task()
    unread = Verdict(False, "the results could not be read", 0, None, looked=False)
    cluster.looks = [look(job(7)), look(job(7, Ending.COMPLETED), verdict=unread)]
    chain.start()
    with pytest.raises(ChainRetry, match="could not be read") as caught:
        chain.resume(chain.plan.as_dict(), {"reason": "ended"})
    assert caught.value.passing


def test_results_that_never_come(cluster, task, submit_config):
    submit_config["driver"]["benchmarks"]["gpqa"]["resumable"] = False
    chain = task()
    cluster.looks = [look(job(7)), look(job(7, Ending.COMPLETED), verdict=MISSING)]
    chain.start()
    with pytest.raises(ChainStopped, match="97 of 100"):
        chain.resume(chain.plan.as_dict(), {"reason": "ended"})
    assert 1060 <= cluster.clock["now"] < 1070


def test_a_lost_job_is_what_the_trigger_saw_for_long_enough(cluster, task):
    chain = task()
    gone = job(7, live=False, known=False, missing=True, state="")
    cluster.looks = [look(job(7)), look(gone)]
    chain.start()
    assert chain.resume(chain.plan.as_dict(), {"reason": "ended"}) == Waiting("7")
    with pytest.raises(ChainRetry, match="lost"):
        chain.resume(chain.plan.as_dict(), {"reason": "lost", "unknown_for": 90.0})
    cluster.outcomes = [SUBMITTED]
    assert task().start() == Waiting("7")
    assert cluster.log[-1] == "submit None"  # it has been waited for once, that is enough


@pytest.mark.row("accounting has the job alive, and squeue has never heard of it")
def test_a_job_that_accounting_alone_has_alive_does_not_keep_a_chain_for_ever(cluster, task, context):
    chain = task()
    runaway = job(7, live=True, known=False, runaway=True)
    cluster.looks = [look(job(7)), look(runaway)]
    chain.start()
    assert chain.resume(chain.plan.as_dict(), {"reason": "ended"}) == Waiting("7")
    with pytest.raises(
        ChainRetry, match=r"job 7 is lost: squeue does not know it, and sacct has it RUNNING \(see sacctmgr"
    ):
        chain.resume(chain.plan.as_dict(), {"reason": "lost", "unknown_for": 3600.0})
    cluster.outcomes = [SUBMITTED]
    task().start()
    assert cluster.log[-1] == "submit None"
    cluster.looks = [look(runaway, job(8, Ending.TIMEOUT, elapsed=60), verdict=MISSING)]
    cluster.outcomes = [SUBMITTED]
    task().start()
    assert cluster.log[-1] == "submit None", "nor does it keep one that has gone on"


@pytest.mark.row("the login node refuses us (a key, a host key)")
def test_a_refused_connection_says_that_the_job_goes_on(cluster, task):
    chain = task()
    cluster.looks = [look(job(7))]
    chain.start()
    with pytest.raises(ChainStopped, match=r"login refused\. The Slurm job goes on.*clear"):
        chain.resume(chain.plan.as_dict(), {"reason": "refused", "text": "login refused"})


# -- deadline -------------------------------------------------------------------------------------------------------


def test_the_deadline_counts_from_the_first_start(cluster, task, context):
    cluster.looks = [look(job(7))]
    task(execution_timeout=60.0).start()
    cluster.clock["now"] += 30
    chain = task(execution_timeout=60.0)
    chain.start()
    assert chain.deadline == 1060.0


def test_a_deadline_cancels_then_fails(cluster, task):
    chain = task(execution_timeout=60.0)
    cluster.looks = [look(job(7))]
    chain.start()
    with pytest.raises(ChainStopped, match="execution_timeout of 60 s"):
        chain.resume(chain.plan.as_dict(), {"reason": "deadline", "text": "away"})
    assert cluster.log[-1] == "cancel execution_timeout is over ['7']"


def test_a_deadline_does_not_throw_away_what_is_done(cluster, task):
    chain = task(execution_timeout=60.0)
    cluster.looks = [look(job(7)), look(job(7, Ending.COMPLETED), verdict=DONE)]
    chain.start()
    assert chain.resume(chain.plan.as_dict(), {"reason": "deadline"})["complete"] is True


def test_no_job_is_made_after_the_deadline(cluster, task):
    cluster.looks = [look(job(7, Ending.TIMEOUT))]
    chain = task(execution_timeout=60.0)
    chain.memory.first_start = 900.0
    with pytest.raises(ChainStopped, match="execution_timeout"):
        chain.start()
    assert "submit None" not in cluster.log


@pytest.mark.row("`execution_timeout` is over")
@pytest.mark.parametrize("jobs", [(), (job(7, Ending.TIMEOUT),)])
def test_a_deadline_cancels_what_a_submission_that_was_cut_off_may_have_made(cluster, task, monkeypatch, jobs):
    cluster.looks = [look(*jobs)]
    monkeypatch.setattr(cluster, "wait", 25)
    chain = task(execution_timeout=60.0)
    chain.memory.first_start = 900.0
    with pytest.raises(ChainStopped, match=r"execution_timeout of 60 s.* cut off: see that no job gym-gpqa-\w+ shows"):
        chain.start()
    assert cluster.log[-1] == f"cancel execution_timeout is over {['7'] if jobs else []}"


# -- clear ----------------------------------------------------------------------------------------------------------


def cleared(context):
    context["ti"].max_tries += 1


def test_a_red_chain_that_is_cleared_runs_again_in_its_directory(cluster, task, context):
    failed = job(7, Ending.CANCELLED, cancelled_by=1000)
    cluster.looks, cluster.outcomes = [look(failed)], [SUBMITTED]
    first = task()
    with pytest.raises(ChainStopped):
        first.start()
    cleared(context)
    again = task()
    assert again.start() == Waiting("7")
    assert again.plan == first.plan
    assert ChainMemory.of(context).budget_base == 1


def test_a_green_chain_that_is_cleared_runs_in_a_new_directory(cluster, task, context):
    cluster.looks, cluster.outcomes = [look(job(7, Ending.COMPLETED), verdict=DONE), look()], [SUBMITTED]
    first = task()
    first.start()
    cleared(context)
    again = task()
    assert again.start() == Waiting("7")
    assert again.plan.run_dir != first.plan.run_dir
    assert again.plan.job_name != first.plan.job_name


def test_so_it_does_when_airflow_has_forgotten_the_task(cluster, task, context):
    cluster.looks = [look(job(7, Ending.COMPLETED), verdict=DONE)]
    first = task()
    first.start()
    context["task_state_store"].clear()
    cleared(context)
    cluster.looks, cluster.outcomes = [look(job(7, Ending.COMPLETED), verdict=DONE), look()], [SUBMITTED]
    again = task()
    assert again.start() == Waiting("7")
    assert again.plan.run_dir != first.plan.run_dir


def test_a_job_that_still_lives_after_a_clear_counts_in_the_new_budget(cluster, task, context):
    cluster.looks = [look(job(6, Ending.FAILED, exit_code=1), job(7))]
    task().start()
    cleared(context)
    assert task().start() == Waiting("7")
    assert ChainMemory.of(context).budget_base == 1


@pytest.mark.parametrize("live", [True, False])
def test_a_clear_while_accounting_is_away_is_a_new_budget_all_the_same(cluster, task, context, live):
    failed = [job(number, Ending.FAILED, exit_code=1, elapsed=60) for number in (5, 6, 7)]
    cluster.looks = [look(*failed)]
    with pytest.raises(ChainStopped, match="all 2 retries are used"):
        task().start()
    cleared(context)
    cluster.looks = [look(*(job(number, live=live, known=False, state="") for number in (5, 6, 7)))]
    assert task().start() == Waiting("7"), "nothing is known of them"
    cluster.looks, cluster.outcomes = [look(*failed)], [SUBMITTED]
    assert task().start() == Waiting("7")
    assert (ChainMemory.of(context).budget_base, cluster.log[-1]) == (3, "submit None")


def test_a_job_that_finished_after_its_task_went_red_is_taken(cluster, task, context):
    cluster.looks = [look(job(7))]
    task().start()
    cleared(context)
    cluster.looks = [look(job(7, Ending.COMPLETED), verdict=DONE)]
    assert task().start()["complete"] is True


def test_our_own_cancel_is_no_reason_to_stop(cluster, task):
    mark = (CancelMark(1, ("7",), "the task was cleared or marked in Airflow"),)
    cluster.looks = [look(job(7, Ending.CANCELLED, cancelled_by=0), marks=mark)]
    cluster.outcomes = [SUBMITTED]
    assert task().start() == Waiting("7")


def test_nor_for_a_benchmark_that_cannot_resume(cluster, task, submit_config):
    submit_config["driver"]["benchmarks"]["gpqa"]["resumable"] = False
    mark = (CancelMark(1, ("7",), "the task was ended in Airflow"),)
    cancelled = look(job(7, Ending.CANCELLED, cancelled_by=0), marks=mark)
    chain = task()
    cluster.looks, cluster.outcomes = [look(job(7)), cancelled], [SUBMITTED]
    chain.start()
    with pytest.raises(ChainRetry, match="on our request"):
        chain.resume(chain.plan.as_dict(), {"reason": "ended"})
    assert task().start() == Waiting("7")
    cluster.looks = [look(job(7, Ending.CANCELLED), job(8, Ending.FAILED, exit_code=1), marks=mark)]
    with pytest.raises(ChainStopped, match="not resumable"):
        task().start()


# -- refusals, kills --------------------------------------------------------------------------------------------------


def refused(stderr):
    return Outcome(OutcomeKind.REFUSED, stderr, returncode=1, stderr=stderr)


def test_a_permanent_refusal_fails_at_once_and_names_the_field(cluster, task):
    text = "sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified"
    cluster.looks, cluster.outcomes = [look()], [refused(text)]
    with pytest.raises(
        AirflowFailException, match=r"partition combination specified\. compute\.c\.account is '\w+': name an account"
    ):
        task().start()


@pytest.mark.row("a submit limit is reached")
def test_a_submit_limit_is_waited_for(cluster, task):
    text = (
        "sbatch: error: AssocMaxSubmitJobLimit\nsbatch: error: Batch job submission failed: Job violates "
        "accounting/QOS policy (job submit limit, user's size and/or time limits)"
    )
    cluster.looks, cluster.outcomes = [look()], [refused(text)]
    with pytest.raises(ChainRetry) as caught:
        task().start()
    assert caught.value.passing


@pytest.mark.parametrize("kind", [OutcomeKind.CHANGED, OutcomeKind.WAIT, OutcomeKind.CANCELLED])
def test_what_is_not_clear_is_looked_at_again(cluster, task, kind):
    cluster.looks, cluster.outcomes = [look(), look(job(8))], [Outcome(kind, "x", wait=30)]
    assert task().start() == Waiting("8")


@pytest.mark.parametrize("kind", [OutcomeKind.BUSY, OutcomeKind.UNKNOWN])
def test_what_is_not_possible_now_is_tried_again(cluster, task, kind):
    cluster.looks, cluster.outcomes = [look()], [Outcome(kind, "x")]
    with pytest.raises(ChainRetry):
        task().start()


def test_a_slurmctld_whose_answers_get_lost_is_left_alone_for_a_while(cluster, task):
    lost = Outcome(OutcomeKind.WAIT, "it may have made a job nevertheless: Socket timed out", wait=30, returncode=1)
    waited = Outcome(OutcomeKind.WAIT, "a submission was cut off", wait=5)
    cluster.looks, cluster.outcomes = [look()], [lost, waited, lost, waited, lost]
    with pytest.raises(ChainRetry, match="Socket timed out") as caught:
        task().start()
    assert (caught.value.passing, cluster.outcomes) == (True, [])


def test_a_directory_that_cannot_be_used_is_tried_a_few_times_then_red(cluster, task, context):
    cluster.looks, cluster.outcomes = [look()], [Outcome(OutcomeKind.FAILED, "/out: Permission denied. The account …")]
    with pytest.raises(ChainError, match="Permission denied") as caught:
        task().start()
    said = [ChainRetryPolicy().evaluate(caught.value, 1, 10_000, context) for _ in range(5)]
    assert [(each.action.name, "/out: Permission denied" in each.reason) for each in said] == [
        *[("RETRY", True)] * 4,
        ("FAIL", True),
    ]


def test_a_live_job_that_cannot_be_recorded_is_waited_for_all_the_same(cluster, task, monkeypatch):
    cluster.looks = [look(job(7))]
    monkeypatch.setattr(cluster, "found", ("7",))
    cluster.outcomes = [Outcome(OutcomeKind.FAILED, "No space left on device")]
    assert task().start() == Waiting("7")
    assert cluster.log == ["look", "submit None"]


def test_a_directory_that_has_gone_away_with_its_job_makes_no_other_until_a_clear(cluster, task, context):
    chain = task()
    cluster.looks, cluster.outcomes = [look()], [SUBMITTED, SUBMITTED]
    chain.start()
    with pytest.raises(ChainError, match=r"is away, and with it what became of job 7\. Bring it back .*clear the task"):
        chain.resume(chain.plan.as_dict(), {"reason": "ended"})
    with pytest.raises(ChainError):
        task().start()
    cluster.looks = [look(job(7, Ending.CANCELLED, cancelled_by=1000))]
    with pytest.raises(ChainStopped, match="CANCELLED by 1000"):
        task().start()
    context["ti"].max_tries += 2
    cluster.looks = [look()]
    assert task().start() == Waiting("7")


def test_two_map_indexes_whose_directories_have_one_name_get_two_after_a_clear(cluster, task, context, monkeypatch):
    look_of = cluster.look
    cluster.looks, cluster.outcomes = [look()], [SUBMITTED]

    def foreign(self, clusters=()):
        if self.plan.key["generation"] == 0:
            raise ForeignDirectoryError("the run directory belongs to another map index; nothing was written")
        return look_of(self, clusters)

    monkeypatch.setattr(cluster, "look", foreign)
    chain = task()
    with pytest.raises(ForeignDirectoryError) as caught:
        chain.start()
    said = ChainRetryPolicy().evaluate(caught.value, 1, 10_000, context)
    assert (said.action.name, "clear the task" in said.reason) == ("FAIL", True)
    context["ti"].max_tries += 1
    again = task()
    assert again.start() == Waiting("7")
    assert again.plan.run_dir != chain.plan.run_dir
    assert "clear the task" not in ChainRetryPolicy().evaluate(caught.value, 1, 10_000, context).reason


ELSEWHERE = {"job": {"output_path": "/home/of/another/worker"}}


def test_where_a_job_was_asked_for_no_other_directory_will_do_until_a_clear(cluster, task, context, submit_config):
    cluster.looks = [look()]
    with pytest.raises(IndexError):  # no outcome: the worker is lost before it has heard one
        task().start()
    with pytest.raises(ChainError, match=r"has asked for a job in .*depends on the worker .*clear the task"):
        task(config=submit_config | ELSEWHERE).start()
    assert cluster.log.count("submit None") == 1
    cluster.outcomes = [SUBMITTED, SUBMITTED]
    assert task().start() == Waiting("7")
    with pytest.raises(ChainError, match="has asked for a job in"):
        task(config=submit_config | ELSEWHERE).start()
    context["ti"].max_tries += 2
    assert task(config=submit_config | ELSEWHERE).start() == Waiting("7")


@pytest.mark.row("the config names another model, other inputs or other sampling while a chain is under way")
def test_a_resumed_chain_never_adds_rollouts_of_another_model_to_those_that_are_there(cluster, task, submit_config):
    first, second = with_model(submit_config, "step-7"), with_model(submit_config, "step-8")
    cluster.looks = [look()]
    cluster.outcomes = [SUBMITTED, SUBMITTED, SUBMITTED]
    chain = task(config=first)
    chain.start()
    cluster.looks = [look(job(7, Ending.TIMEOUT, elapsed=60), verdict=MISSING)]
    same = task(config=first)
    same.start()
    assert same.plan == chain.plan, "the same model goes on with them"
    cluster.looks = [look(job(7, Ending.TIMEOUT, elapsed=60), verdict=MISSING), look()]
    other = task(config=second)
    assert other.start() == Waiting("7")
    assert (other.plan.key["generation"], other.plan.run_dir == chain.plan.run_dir) == (1, False)


def test_a_config_that_named_a_wrong_model_is_put_right_where_no_rollouts_are(cluster, task, submit_config):
    cluster.looks = [look()]
    cluster.outcomes = [SUBMITTED, SUBMITTED]
    chain = task(config=with_model(submit_config, "no-such"))
    chain.start()
    cluster.looks = [look(job(7, Ending.FAILED, exit_code=1), verdict=Verdict(False, "no rollouts", 0, None))]
    right = task(config=with_model(submit_config, "step-8"))
    right.start()
    assert right.plan.run_dir == chain.plan.run_dir


@pytest.mark.parametrize(("model", "anew"), [("step-7", False), ("step-8", True)])
def test_results_that_came_after_a_red_end_count_after_a_clear_for_their_own_model(
    cluster, task, context, submit_config, model, anew
):
    cluster.looks = [look()]
    cluster.outcomes = [SUBMITTED, SUBMITTED]
    task(config=with_model(submit_config, "step-7")).start()
    context["ti"].max_tries += 2
    cluster.looks = [look(job(7, Ending.COMPLETED), verdict=DONE), look()]
    chain = task(config=with_model(submit_config, model))
    assert (chain.start() == Waiting("7"), chain.plan.key["generation"]) == (anew, int(anew))


@pytest.mark.parametrize("end", [None, Ending.COMPLETED, Ending.TIMEOUT])
@pytest.mark.row("two tasks have one `run_group` and one benchmark")
def test_two_tasks_of_a_run_group_never_share_the_job_or_the_result_of_one_benchmark(
    cluster, task, context, monkeypatch, end
):
    context["ti"].task_id, context["ti"].map_index = "eval", 1
    cluster.looks = [look(job(7, end), verdict=DONE)]
    monkeypatch.setattr(cluster, "task", "eval[0]")
    with pytest.raises(ChainStopped, match=r"the task eval\[0\] in this DAG run.* another run_group, or none"):
        task(run_group="g").start()
    monkeypatch.setattr(cluster, "task", "eval[1]")
    if end is None:
        assert task(run_group="g").start() == Waiting("7")


@pytest.mark.parametrize("known", [True, False], ids=["an index that was there", "one that was not"])
def test_after_a_clear_a_benchmark_may_have_another_map_index(cluster, task, context, monkeypatch, known):
    context["ti"].map_index = 2
    if known:
        cluster.looks, cluster.outcomes = [look()], [SUBMITTED]
        task(run_group="g").start()
        context["ti"].max_tries += 2
    else:
        context["dag_run"].clear_number = 1
    cluster.looks = [look(job(7))]
    monkeypatch.setattr(cluster, "task", "eval[1]")
    for _ in range(2):  # and so it stays
        assert task(run_group="g").start() == Waiting("7")


def test_of_two_tasks_that_start_at_once_the_slower_one_sees_whose_job_it_is(cluster, task, context, monkeypatch):
    context["ti"].map_index = 1
    cluster.looks = [look(), look(job(7))]
    cluster.outcomes = [Outcome(OutcomeKind.ADOPTED, "job 7 is PENDING", "7")]
    monkeypatch.setattr(cluster, "task", "eval[0]")
    with pytest.raises(ChainStopped, match=r"the task eval\[0\]"):
        task(run_group="g").start()


@pytest.mark.row("the connection leads to another cluster now")
def test_a_connection_that_leads_to_another_cluster_now_makes_no_second_job_there(cluster, task, context, monkeypatch):
    where = {"now": "me@one:22"}
    monkeypatch.setattr(_held.SlurmHook, "where", property(lambda _: where["now"]))
    cluster.looks, cluster.outcomes = [look()], [SUBMITTED]
    task().start()
    where["now"] = "me@two:22"
    gone = job(7, live=False, known=False, missing=True, state="")
    cluster.looks = [look(gone)]
    with pytest.raises(ChainError, match=r"on me@two:22 knows nothing of job 7, which was made on me@one:22\. If"):
        task().start()
    cluster.looks = [look(job(7))]  # another login node of the same one
    assert task().start() == Waiting("7")
    where["now"] = "me@three:22"
    context["ti"].max_tries += 2
    cluster.looks, cluster.outcomes = [look(gone)], [SUBMITTED]
    assert task().start() == Waiting("7"), "a clear starts anew"


def test_what_was_asked_for_in_vain_is_asked_for_by_way_of_another_login_node(cluster, task, monkeypatch):
    """Nothing there and no job: the connection was cut, or the first node was away."""
    where = {"now": "me@one:22"}
    monkeypatch.setattr(_held.SlurmHook, "where", property(lambda _: where["now"]))
    cluster.looks, cluster.outcomes = [look()], []
    with pytest.raises(IndexError):  # the worker is lost before it has heard an answer
        task().start()
    where["now"] = "me@two:22"
    cluster.looks, cluster.outcomes = [look()], [SUBMITTED]
    assert task().start() == Waiting("7")


def test_rollouts_of_another_model_in_a_place_that_is_not_the_chains_stop_it(cluster, task, submit_config):
    def config(name):
        made = with_model(submit_config, name)
        made["driver"]["benchmarks"]["gpqa"]["run"]["output_jsonl_fpath"] = "/shared/rollouts.jsonl"
        return made

    cluster.looks = [look()]
    cluster.outcomes = [SUBMITTED]
    task(config=config("step-7")).start()
    cluster.looks = [look(job(7, Ending.TIMEOUT, elapsed=60), verdict=MISSING)]
    for _ in range(2):
        with pytest.raises(
            ChainStopped, match=r"97 rollouts in /shared/rollouts\.jsonl are of .*step-7.* step-8 now\. M"
        ):
            task(config=config("step-8")).start()


@pytest.mark.parametrize("kind", [OutcomeKind.FAILED, OutcomeKind.REFUSED])
def test_where_no_job_can_have_been_made_the_next_try_may_go_elsewhere(cluster, task, submit_config, kind):
    cluster.looks = [look()]
    cluster.outcomes = [Outcome(kind, "/out: Permission denied", stderr="sbatch: error: Invalid account"), SUBMITTED]
    with suppress(ChainError, AirflowFailException):
        task().start()
    assert task(config=submit_config | ELSEWHERE).start() == Waiting("7")


@pytest.mark.parametrize(("ending", "error"), [(Ending.FAILED, ChainRetry), (Ending.CANCELLED, ChainStopped)])
def test_what_the_next_job_would_die_of_is_told_with_the_end_of_the_last(cluster, task, monkeypatch, ending, error):
    chain = task()
    cluster.looks = [look(job(7)), look(job(7, ending, exit_code=1, cancelled_by=1000))]
    monkeypatch.setattr(cluster, "unwritable", "/out/gpqa cannot be written: Disk quota exceeded")
    chain.start()
    with pytest.raises(error, match=rf"^(gpqa: )?{ending}.*; .*\. /out/gpqa cannot be written: Disk quota exceeded"):
        chain.resume(chain.plan.as_dict(), {"reason": "ended"})


def test_a_wrong_config_fails_with_every_problem_and_touches_nothing(cluster, task, submit_config):
    submit_config["compute"]["c"]["walltime"] = "soon"
    submit_config["driver"]["containr"] = "x"
    with pytest.raises(AirflowFailException, match=r"(?s)walltime.*containr|containr.*walltime"):
        task().start()
    assert cluster.log == []


def test_a_killed_task_cancels_and_submits_nothing_more(cluster, task):
    chain = task()
    cluster.looks, cluster.outcomes = [look(job(7))], []
    chain.start()
    chain.kill()
    assert cluster.log[-1] == "cancel the task was ended in Airflow ['7']"
    with pytest.raises(ChainRetry, match="ended from outside"):
        chain.go_on({"reason": "ended"})


def test_a_task_killed_before_it_knows_anything_cancels_what_an_earlier_try_left(cluster, task):
    cluster.looks = [look(job(7))]
    task().start()
    task().kill()
    assert cluster.log[-1] == "cancel the task was ended in Airflow ['7']"


def test_tries_that_are_killed_without_a_word_have_an_end(cluster, task):
    cluster.looks = [look()]
    for _ in range(20):
        with pytest.raises(IndexError):  # stands for a kill: no submission is prepared
            task().start()
    with pytest.raises(ChainStopped, match="20 tries in a row"):
        task().start()


def test_a_kill_before_anything_was_submitted(cluster, task):
    task().kill()
    assert cluster.log == []


class Deaf:
    """A hook that keeps the scripts it is given and answers nothing."""

    script_options: ClassVar = {}
    where = "login"

    def __init__(self):
        self.scripts = []

    def run(self, script, *_args, **_kwargs):
        self.scripts.append(script.text)
        return Answer(0, "", "")


def test_a_job_sent_to_another_cluster_is_looked_for_there(context, submit_config):
    """Its number may never have arrived: by name it is found only where it is."""
    submit_config["compute"]["c"]["extra_args"] = {"clusters": "c2,c3"}
    config = load_submit_config(submit_config, environ={})
    key = chain_key(context, ChainMemory.of(context), None)
    plan = ChainPlan.from_dict(json.loads(json.dumps(make_plan(config, "gpqa", key, context).as_dict())))
    hook = Deaf()
    for ask in (
        lambda: Cluster(hook, plan).look(["c4"]),
        lambda: Cluster(hook, plan).cancel("over", ["7;c2"]),
        lambda: submit(hook, config, run_files(config, plan.run_dir, key, {}), [Submission(plan.place, ())], {}),
    ):
        with suppress(CutOffError):
            ask()
    assert ["gym_clusters=('' c2 c3" in text for text in hook.scripts] == [True] * 3


@pytest.mark.filterwarnings("ignore:.*is the same file in every run")
@pytest.mark.parametrize("output_path", ["/scratch//me", "/scratch/./me/", "//scratch/me", "/scratch/me"])
@pytest.mark.parametrize(("fpath", "own"), [(None, True), ("/scratch/me/rollouts.jsonl", False)])
def test_results_in_the_chains_directory_are_its_own_however_the_path_is_written(
    context, submit_config, output_path, fpath, own
):
    submit_config["job"]["output_path"] = output_path
    if fpath:
        submit_config["driver"]["benchmarks"]["gpqa"]["run"]["output_jsonl_fpath"] = fpath
    key = chain_key(context, ChainMemory.of(context), None)
    plan = make_plan(load_submit_config(submit_config, environ={}), "gpqa", key, context)
    assert plan.results_are_its_own is own


def test_a_cluster_that_nobody_knows_is_no_passing_trouble(submit_config):
    config = load_submit_config(submit_config, environ={})
    text = "squeue on c9: squeue: error: No cluster 'c9' known by database."
    with pytest.raises(AirflowFailException, match=r"compute\.c\.extra_args\.clusters"):
        settle(config, Outcome(OutcomeKind.UNKNOWN, text))
    with pytest.raises(ChainRetry):
        settle(config, Outcome(OutcomeKind.UNKNOWN, "squeue: error: 'c9' can't be reached now"))


@pytest.mark.row("you clear a running task")
@pytest.mark.parametrize("ran", [11 * 3600, 12 * 3600 - 20, 12 * 3600 + 5])
def test_a_clear_gives_a_whole_budget_while_the_job_that_it_cancelled_is_still_ending(
    cluster, task, context, submit_config, ran
):
    submit_config["driver"]["benchmarks"]["gpqa"]["resumable"] = {"max_retries": 2, "max_walltime": "12:00:00"}
    submit_config["compute"]["c"]["walltime"] = "12:00:00"
    cluster.looks, cluster.outcomes = [look()], [SUBMITTED] * 2
    task().start()
    context["ti"].max_tries += 1
    marks = (CancelMark(1, ("7",), "the task was cleared or marked in Airflow"),)
    cluster.looks = [look(job(7, state="COMPLETING", elapsed=ran), marks=marks)]
    chain = task()
    assert chain.start() == Waiting("7")
    cluster.looks = [look(job(7, Ending.CANCELLED, cancelled_by=1000, elapsed=ran), marks=marks)]
    with pytest.raises(ChainRetry):
        chain.resume(chain.plan.as_dict(), {"reason": "ended"})
    task().start()
    assert cluster.log[-1] == "submit None", "no job of an earlier budget is counted"


@pytest.mark.row("its results look complete, and rollouts are there twice or broken")
def test_results_that_do_not_add_up_are_left_by_a_clear(cluster, task, context, monkeypatch):
    monkeypatch.setattr(cluster, "summary", Summary(rollouts=3, duplicates=1))
    cluster.looks = [look(job(7, Ending.COMPLETED), verdict=DONE)]
    with pytest.raises(ChainStopped, match=r"there twice; chain stopped\. A clear starts anew, in another") as red:
        task().start()
    assert context["ti"].xcoms["gym_chain"]["reason"].endswith(": 1 lines are there twice; chain stopped")
    context["ti"].max_tries += 1
    cluster.looks, cluster.outcomes = [look()], [SUBMITTED]
    chain = task()
    assert chain.start() == Waiting("7")
    assert chain.plan.job_dir not in str(red.value)


def test_what_the_job_of_this_very_try_made_is_taken_though_the_store_was_lost(cluster, task, context):
    context["ti"].max_tries += 1
    cluster.looks, cluster.outcomes = [look()], [SUBMITTED]
    chain = task()
    chain.start()
    cluster.looks = [look(job(7, Ending.COMPLETED), verdict=DONE)]
    assert chain.resume(chain.plan.as_dict(), {"reason": "ended"})["rollouts_done"] == 4


def test_an_event_without_a_plan_goes_on_as_remembered(cluster, task):
    """`dag.test()` and `airflow tasks test` hand on the event alone."""
    cluster.looks = [look(job(7)), look(job(7, Ending.COMPLETED), verdict=DONE)]
    task().start()
    assert task().resume({}, {"reason": "ended"})["job_id"] == "7"


def test_an_end_that_only_the_trigger_sees_is_asked_for_with_pauses(cluster, task, context):
    """Else the two would wake each other, as fast as they can."""
    unknown = look(job(7, known=False))
    cluster.looks = [look(job(7)), *[unknown] * 7]
    task().start()
    assert task().resume({}, {"reason": "ended"}) == Waiting("7")  # an outage that is over when the trigger looks again
    delays = []
    for _ in range(3):
        with pytest.raises(ChainRetry) as caught:
            task().resume({}, {"reason": "ended"})
        delays.append(ChainRetryPolicy().evaluate(caught.value, 1, 9, context).retry_delay.total_seconds())
        assert task().start() == Waiting("7")
    assert delays == [15, 30, 60]


@pytest.mark.row("a site refuses the job in words of its own")
def test_a_refusal_in_a_sites_own_words_is_red_in_the_end(cluster, task, context):
    text = (
        "sbatch: error: You must give a project with --account\n"
        "sbatch: error: Batch job submission failed: Unspecified error"
    )
    decisions = []
    for _ in range(5):
        cluster.looks, cluster.outcomes = [look()], [refused(text)]
        with pytest.raises(ChainError) as caught:
            task().start()
        decisions.append(ChainRetryPolicy().evaluate(caught.value, 1, 9, context))
    assert [decision.action.name for decision in decisions] == ["RETRY"] * 4 + ["FAIL"]
    assert "You must give a project with --account" in decisions[-1].reason
    assert "ask whoever runs the cluster" in decisions[-1].reason
    assert "may have been queued" not in decisions[-1].reason


UNREAD = Summary(problem="/r could not be summarised: is there room for temporary files on the login node?")


@pytest.mark.row("the rollouts of a finished job cannot be read (no room to sort them, no answer)")
def test_a_finished_job_whose_rollouts_cannot_be_read_is_neither_green_nor_wrong(cluster, task, context, monkeypatch):
    """They are read again without another job and without a counted retry, for about an hour."""
    monkeypatch.setattr(cluster, "summary", UNREAD)
    cluster.looks = [look(job(7, Ending.COMPLETED), verdict=DONE)]
    waited = 0.0
    for _ in range(MAX_UNREAD - 1):
        with pytest.raises(ChainRetry, match=r"could not be read: /r could not be summarised") as caught:
            task().start()
        decision = ChainRetryPolicy().evaluate(caught.value, 1, 10_000, context)
        assert decision.reason.endswith("trying again, no retry counted")
        waited += decision.retry_delay.total_seconds()
    assert 40 * 60 < waited < 60 * 60
    with pytest.raises(
        ChainStopped, match=rf"is there room .*; that was no\. {MAX_UNREAD}\. Mend it and clear the task"
    ):
        task().start()
    assert not any("submit" in line for line in cluster.log)
    assert ChainMemory.of(context).outcome != SUCCESS


def test_a_clear_has_rollouts_read_again_that_could_not_be(cluster, task, context, monkeypatch):
    monkeypatch.setattr(cluster, "summary", UNREAD)
    cluster.looks = [look(job(7, Ending.COMPLETED), verdict=DONE)]
    for _ in range(MAX_UNREAD):
        with suppress(ChainRetry, ChainStopped):
            task().start()
    context["ti"].max_tries += 1
    with pytest.raises(ChainRetry, match="could not be read"):
        task().start()
    monkeypatch.setattr(cluster, "summary", Summary(rollouts=4))
    assert task().start()["rollouts_done"] == 4
    assert not any("submit" in line for line in cluster.log)


def test_at_the_deadline_rollouts_that_cannot_be_read_make_it_red(cluster, task, monkeypatch):
    monkeypatch.setattr(cluster, "summary", UNREAD)
    chain = task(execution_timeout=60.0)
    cluster.looks = [look(job(7)), look(job(7, Ending.COMPLETED), verdict=DONE)]
    chain.start()
    with pytest.raises(
        ChainStopped, match=r"execution_timeout of 60 s .*could not be read: /r could not be summarised"
    ):
        chain.resume(chain.plan.as_dict(), {"reason": "deadline"})


def test_a_partial_result_says_how_many_rollouts_it_is_and_that_it_is_partial(
    cluster, task, context, submit_config, monkeypatch
):
    """As many lines as were expected, and green as the config wants it: nobody is told that all rollouts are there."""
    submit_config["driver"]["benchmarks"]["gpqa"]["run"]["require_complete"] = False
    monkeypatch.setattr(cluster, "summary", Summary(rollouts=2, duplicates=1, unreadable=1))
    cluster.looks = [look(job(7, Ending.COMPLETED), verdict=DONE)]
    result = task().start()
    assert (result["rollouts_done"], result["rollouts_expected"], result["complete"]) == (2, 4, False)
    told = context["ti"].xcoms["gym_chain"]["reason"]
    assert "2 of 4 rollouts" in told and "1 lines are there twice, 1 lines are no JSON; a partial result" in told
    assert ChainMemory.of(context).outcome == SUCCESS
