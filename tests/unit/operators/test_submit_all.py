"""Every benchmark of a config, queued once."""

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_gym_provider.chain import (
    ChainError,
    ChainLook,
    ChainPlace,
    ForeignDirectoryError,
    Outcome,
    OutcomeKind,
    SubmitReport,
)
from airflow_gym_provider.exceptions import ChainRetry
from airflow_gym_provider.operators import _queue as queueing
from airflow_gym_provider.operators._memory import SUCCESS, ChainMemory
from airflow_gym_provider.operators.gym import GymSubmitOperator
from airflow_gym_provider.operators.retry import ChainRetryPolicy

RECORD = {"schema_version": 1, "benchmarks": []}
BAD_PARTITION = (
    "sbatch: error: invalid partition specified: gpux\n"
    "sbatch: error: Batch job submission failed: Invalid partition name specified"
)
LIMIT = "sbatch: error: AssocMaxSubmitJobLimit"


@pytest.fixture
def queue(monkeypatch, submit_config):
    """Three benchmarks. `queue.answers`: benchmark to outcomes, one after the other; `queue.jobs`: what is queued."""
    section = submit_config["driver"]["benchmarks"]["gpqa"]
    submit_config["driver"]["benchmarks"] = dict.fromkeys("abc", section)

    class Queue:
        answers = {}  # noqa: RUF012
        jobs = {}  # noqa: RUF012
        rounds = []  # noqa: RUF012
        directories = set()  # noqa: RUF012

    queue = Queue()

    def look(self, names):
        queue.directories.add(self.run_dir)
        places = {name: ChainPlace.at(self.run_dir, name, self.key) for name in names}
        return {name: ChainLook(place, ids=queue.jobs.get(name, ())) for name, place in places.items()}

    def submit(hook, config, run, submissions, environ, **_):
        names = [submission.place.benchmark for submission in submissions]
        queue.rounds.append(names)
        outcomes = {}
        for name in names:
            given = queue.answers.get(name, [])
            outcomes[name] = given.pop(0) if given else Outcome(OutcomeKind.SUBMITTED, job_id="7")
            if outcomes[name].kind is OutcomeKind.SUBMITTED:
                queue.jobs[name] = ("7",)
        return SubmitReport(outcomes)

    monkeypatch.setattr(queueing.RunQueue, "_look", look)
    monkeypatch.setattr(queueing.RunQueue, "record", lambda self, wanted=(): RECORD)
    monkeypatch.setattr(queueing._submit, "submit", submit)
    monkeypatch.setattr(queueing.time, "sleep", lambda seconds: None)
    Queue.answers, Queue.jobs, Queue.rounds, Queue.directories = {}, {}, [], set()
    return queue


def run(submit_config, context, **changes):
    return GymSubmitOperator(task_id="submit", config=submit_config, **changes).execute(context)


def refused(text):
    return Outcome(OutcomeKind.REFUSED, text, returncode=1, stderr=text)


def test_all_in_one_round_and_the_record_comes_back(queue, submit_config, context):
    assert run(submit_config, context) == RECORD
    assert queue.rounds == [["a", "b", "c"]]
    assert ChainMemory.of(context).outcome == SUCCESS


def test_only_those_that_are_wanted(queue, submit_config, context):
    run(submit_config, context, benchmark=["c", "a"])
    assert queue.rounds == [["c", "a"]]
    with pytest.raises(AirflowFailException, match="there is no 'x'"):
        run(submit_config, context, benchmark="x")


def test_a_retry_queues_what_is_missing_alone(queue, submit_config, context):
    queue.jobs["b"] = ("5",)
    run(submit_config, context)
    assert queue.rounds == [["a", "c"]]
    run(submit_config, context)
    assert queue.rounds == [["a", "c"]]


def test_a_retry_in_another_directory_queues_nothing_until_a_clear(queue, submit_config, context):
    run(submit_config, context)
    moved = submit_config | {"job": {"output_path": "/home/of/another/worker"}}
    with pytest.raises(ChainError, match=r"has asked for a job in .*depends on the worker .*clear the task"):
        run(moved, context)
    assert queue.rounds == [["a", "b", "c"]]


def test_one_that_is_refused_for_good_keeps_nobody(queue, submit_config, context):
    queue.answers["b"] = [refused(BAD_PARTITION)]
    with pytest.raises(AirflowFailException, match=r"b: .*partition"):
        run(submit_config, context)
    assert set(queue.jobs) == {"a", "c"}
    assert context["ti"].xcoms["return_value"] == RECORD


def test_one_that_is_refused_for_now_is_tried_again_later(queue, submit_config, context):
    queue.answers["b"] = [refused(LIMIT)]
    with pytest.raises(ChainRetry) as caught:
        run(submit_config, context)
    assert caught.value.passing
    assert run(submit_config, context) == RECORD
    assert queue.rounds == [["a", "b", "c"], ["b"]]


def test_what_was_refused_for_good_is_not_asked_for_again(queue, submit_config, context):
    queue.answers = {"a": [refused(BAD_PARTITION)], "b": [refused(LIMIT)]}
    with pytest.raises(ChainRetry):
        run(submit_config, context)
    with pytest.raises(AirflowFailException, match=r"a: .*partition"):
        run(submit_config, context)
    assert queue.rounds == [["a", "b", "c"], ["b"]]
    context["ti"].max_tries += 1
    assert run(submit_config, context) == RECORD
    assert queue.rounds[-1] == ["a"]


def test_what_is_not_clear_is_looked_at_again_at_once(queue, submit_config, context):
    queue.answers["a"] = [Outcome(OutcomeKind.CHANGED), Outcome(OutcomeKind.WAIT, wait=30)]
    assert run(submit_config, context) == RECORD
    assert queue.rounds == [["a", "b", "c"], ["a"], ["a"]]


def test_a_cleared_success_is_queued_anew_in_another_directory(queue, submit_config, context):
    run(submit_config, context)
    queue.jobs.clear()
    context["ti"].max_tries += 1
    run(submit_config, context)
    assert len(queue.directories) == 2


def test_a_directory_that_is_somebody_elses_is_left_for_another_by_a_clear(queue, submit_config, context, monkeypatch):
    def foreign(self, names):
        raise ForeignDirectoryError("the run directory belongs to another map index")

    with monkeypatch.context() as patch, pytest.raises(ForeignDirectoryError) as caught:
        patch.setattr(queueing.RunQueue, "_look", foreign)
        run(submit_config, context)
    assert "clear the task" in ChainRetryPolicy().evaluate(caught.value, 1, 10_000, context).reason
    first = ChainMemory.of(context).asked
    context["ti"].max_tries += 1
    run(submit_config, context)
    assert (queue.directories == {first}, ChainMemory.of(context).own) == (False, True)


def test_overrides_that_came_to_nothing_are_none(queue, submit_config, context):
    assert run(submit_config, context, overrides=["", "@policy.model="]) == RECORD


def test_a_directory_that_cannot_be_used_keeps_nobody_and_is_tried_again(queue, submit_config, context):
    queue.answers = {"b": [Outcome(OutcomeKind.FAILED, "/out/b/job.sh cannot be written: Disk quota exceeded")]}
    with pytest.raises(ChainError, match=r"b: /out/b/job\.sh cannot be written: Disk quota exceeded"):
        run(submit_config, context)
    assert set(queue.jobs) == {"a", "c"}
    run(submit_config, context)
    assert queue.rounds[-1] == ["b"]
