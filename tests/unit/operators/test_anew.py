"""No task is green, and no job goes on, with what was asked for otherwise: other models, inputs or sampling."""

import copy
import json
import logging

import pytest
from fakes.chain_task import DONE, SUBMITTED, job, look, with_model
from fakes.task_context import Store

from airflow_gym_provider.chain import Outcome, OutcomeKind
from airflow_gym_provider.chain.place import ASKED_FILE
from airflow_gym_provider.exceptions import ChainRetry, ChainStopped
from airflow_gym_provider.operators import _chain as module
from airflow_gym_provider.operators._asked import Asked
from airflow_gym_provider.operators._chain import Waiting
from airflow_gym_provider.operators._memory import SUCCESS, ChainMemory
from airflow_gym_provider.results import Verdict
from airflow_gym_provider.slurm.states import Ending

FAILED = job(7, Ending.FAILED, exit_code=1)
COMPLETED = look(job(7, Ending.COMPLETED), verdict=DONE)
TWO = Verdict(False, "2 of 4", 2, 4)
BY_STATUS = Verdict(True, "judged by its exit status", 0, None)


@pytest.fixture
def with_run(submit_config):
    """The config with this in the benchmark's `run`."""

    def make(**run):
        made = copy.deepcopy(submit_config)
        made["driver"]["benchmarks"]["gpqa"]["run"] |= run
        return made

    return make


@pytest.fixture
def own_command(submit_config):
    """The config with a command in the place of gym."""

    def make(text):
        return submit_config | {
            "driver": submit_config["driver"] | {"benchmarks": {"gpqa": {"command": text}}},
        }

    return make


@pytest.fixture
def first(cluster, task):
    """A job that is queued for this config, in the task's first try."""

    def make(config, **changes):
        cluster.looks, cluster.outcomes = [look()], [SUBMITTED, SUBMITTED]
        chain = task(config=config, **changes)
        assert chain.start() == Waiting("7")
        return chain

    return make


def cleared(context):
    context["ti"].max_tries += 1


@pytest.mark.row("the config names another model, other inputs or other sampling while a chain is under way")
@pytest.mark.parametrize(
    ("now", "anew"),
    [
        ({"limit": 100, "num_repeats": 8}, "run.limit, run.num_repeats"),
        ({"limit": 4, "responses_create_params": {"temperature": 0.7}}, "run.responses_create_params.temperature"),
        ({"limit": 4, "num_samples_in_parallel": 2, "judge_base_url": "http://a"}, ""),
    ],
)
def test_a_red_task_that_is_cleared_with_another_run_is_not_judged_by_the_old_list_of_inputs(
    cluster, task, context, with_run, first, caplog, now, anew
):
    old = first(with_run(limit=4))
    cleared(context)
    cluster.looks = [look(FAILED, verdict=TWO), look()] if anew else [look(FAILED, verdict=TWO)]
    chain = task(config=with_run(**now))
    assert chain.start() == Waiting("7")
    assert (chain.plan.run_dir != old.plan.run_dir) == bool(anew)
    told = f"the 2 rollouts in {old.plan.spec.rollouts_path} were asked for before the config changed in {anew}: "
    assert (told in caplog.text) == bool(anew)
    assert Asked.read(cluster.asked[chain.plan.job_dir]) == Asked.from_dict(chain.plan.asked)


@pytest.mark.parametrize(
    ("verdict", "changed", "anew"),
    [
        (Verdict(False, "0 of 4", 0, 4), "limit", True),  # the list of inputs is there, and gym would go by it
        (Verdict(False, "0 of 4", 0, 4), "model", False),
        (Verdict(False, "no rollouts", 0, None), "limit", False),
        (Verdict(False, "cannot be read", 0, None, looked=False), "limit", True),
        (Verdict(False, "cannot be read", 0, None, looked=False), "model", True),
        (None, "limit", False),
    ],
)
def test_a_directory_is_left_when_there_is_something_to_go_on_with(
    cluster, task, with_run, first, submit_config, verdict, changed, anew
):
    old = first(submit_config)
    cluster.looks = [look(FAILED, verdict=verdict), look()] if anew else [look(FAILED, verdict=verdict)]
    chain = task(config=with_run(limit=9) if changed == "limit" else with_model(submit_config, "other"))
    assert chain.start() == Waiting("7")
    assert (chain.plan.run_dir != old.plan.run_dir) is anew


@pytest.mark.parametrize(("now", "anew"), [("one", False), ("two", True)])
def test_a_command_of_its_own_is_green_as_the_one_that_ran(cluster, task, own_command, first, now, anew):
    first(own_command("one"))
    cluster.looks = [look(job(7, Ending.COMPLETED), verdict=BY_STATUS), look()]
    assert (task(config=own_command(now)).start() == Waiting("7")) is anew


def test_a_command_of_its_own_that_is_put_right_runs_again_where_it_was(cluster, task, context, own_command, first):
    """It cannot resume, so it begins from nothing anyhow."""
    old = first(own_command("one"))
    cleared(context)
    cluster.looks = [look(FAILED, verdict=BY_STATUS)]
    again = task(config=own_command("two"))
    assert again.start() == Waiting("7")
    assert again.plan.run_dir == old.plan.run_dir


# -- green ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("changed", ["model", "limit", ""])
def test_a_dag_run_that_was_deleted_and_made_again_takes_results_for_what_they_are(
    cluster, task, context, first, with_run, submit_config, changed
):
    """Its directory is the same, its memory empty."""
    old = first(submit_config)
    cluster.looks = [COMPLETED]
    assert task().start()["state"] == "COMPLETED"
    context["task_state_store"] = Store()
    cluster.looks = [COMPLETED, look()] if changed else [COMPLETED]
    now = {"model": with_model(submit_config, "other"), "limit": with_run(limit=9), "": submit_config}[changed]
    chain = task(config=now)
    if changed:
        assert chain.start() == Waiting("7")
        assert chain.plan.run_dir != old.plan.run_dir
        assert ChainMemory.of(context).outcome != SUCCESS
    else:
        assert chain.start()["state"] == "COMPLETED"
        assert chain.plan == old.plan


@pytest.mark.parametrize("changed", ["model", "limit"])
def test_a_live_job_that_was_asked_for_otherwise_is_waited_for_and_not_taken(
    cluster, task, first, with_run, submit_config, caplog, changed
):
    old = first(submit_config)
    cluster.looks = [look(job(7))]
    now = with_model(submit_config, "other") if changed == "model" else with_run(limit=9)
    adopting = task(config=now)
    assert adopting.start() == adopting.go_on({"reason": "ended"}) == Waiting("7")
    said = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    told = {"model": r"of policy org/model, and the config names policy other now", "limit": "changed in run.limit"}
    assert len(said) == 1
    assert said[0].startswith("job 7 is waited for, but its rollouts ")
    assert told[changed] in said[0]
    assert not [line for line in cluster.log if line.startswith("cancel")]
    cluster.looks = [COMPLETED, look()]
    plan = json.loads(json.dumps(adopting.plan.as_dict()))
    with pytest.raises(ChainRetry, match="starting anew") as caught:
        task(config=now).resume(plan, {"reason": "ended"})
    assert caught.value.delay == 2.0
    chain = task(config=now)
    assert chain.start() == Waiting("7")
    assert chain.plan.run_dir != old.plan.run_dir


def test_nor_in_a_retry_that_finds_it_ended(cluster, task, context, first, submit_config):
    first(submit_config)
    cluster.looks = [COMPLETED, look()]
    other = task(config=with_model(submit_config, "other"))
    assert other.start() == Waiting("7")
    assert ChainMemory.of(context).models == "policy other"


def test_nor_by_the_short_way(cluster, task, first, submit_config, monkeypatch):
    def short(cluster_, event):
        look_ = cluster_.look().chains["gpqa"]
        return look_, DONE

    first(submit_config)
    cluster.looks = [look(job(7))]
    adopting = task(config=with_model(submit_config, "other"))
    adopting.start()
    monkeypatch.setattr(module, "finished", short)
    cluster.looks = [COMPLETED, COMPLETED, look()]
    with pytest.raises(ChainRetry, match="starting anew"):
        adopting.go_on({"reason": "ended"})
    cluster.looks = [COMPLETED]
    own = task()
    own.memory.generation = 0
    own.prepare()
    assert own.go_on({"reason": "ended"})["state"] == "COMPLETED"


def test_nor_in_the_last_moment(cluster, task, first, submit_config):
    first(submit_config)
    cluster.looks = [COMPLETED]
    cluster.clock["now"] += 100
    with pytest.raises(ChainStopped, match=r"execution_timeout of 60 s .* is over\. the 4 rollouts in .* other now$"):
        task(config=with_model(submit_config, "other"), execution_timeout=60.0).start()


def test_a_config_that_is_edited_while_the_job_runs_throws_nothing_away(cluster, task, first, submit_config):
    """A try asks for what its config held when it began, and that is what the job did."""
    plan = first(submit_config).plan.as_dict()
    cluster.looks = [COMPLETED]
    assert task(config=with_model(submit_config, "other")).resume(plan, {"reason": "ended"})["state"] == "COMPLETED"


def test_a_try_that_an_older_release_began_is_taken_at_its_word(cluster, task, first, submit_config):
    plan = first(submit_config).plan.as_dict()
    del plan["asked"]
    cluster.looks = [look(job(7)), COMPLETED]
    chain = task()
    assert chain.resume(plan, {"reason": "ended"}) == Waiting("7")
    assert chain.go_on({"reason": "ended"})["state"] == "COMPLETED"


# -- what is compared -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("model", "anew"), [("org/model", False), ("other", True)])
def test_in_an_older_releases_directory_the_models_are_compared_as_they_were_remembered(
    cluster, task, context, first, with_run, model, anew
):
    old = first(with_run())
    cluster.asked.clear()
    memory = ChainMemory.of(context)
    memory.wanted = {}
    memory.save()
    cluster.looks = [COMPLETED, look()]
    chain = task(config=with_model(with_run(limit=9), model))
    assert (chain.start() == Waiting("7")) is anew
    assert (chain.plan.run_dir != old.plan.run_dir) is anew


@pytest.mark.parametrize("benchmark", ["gpqa", "another"])
def test_a_memory_of_another_benchmark_says_nothing_about_this_ones_directory(
    cluster, task, context, first, with_run, benchmark
):
    """A mapped task that was expanded anew has the memory of whoever had its index."""
    old = first(with_run(limit=4))
    cluster.asked.clear()
    memory = ChainMemory.of(context)
    memory.wanted |= {"benchmark": benchmark}
    memory.save()
    cluster.looks = [look(FAILED, verdict=TWO), look()] if benchmark == "gpqa" else [look(FAILED, verdict=TWO)]
    chain = task(config=with_run(limit=9))
    chain.start()
    assert (chain.plan.run_dir != old.plan.run_dir) == (benchmark == "gpqa")


def test_the_file_in_the_directory_goes_before_the_memory(cluster, task, context, first, submit_config):
    first(submit_config)
    memory = ChainMemory.of(context)
    memory.models = "policy of/another"
    memory.save()
    cluster.looks = [COMPLETED]
    assert task().start()["state"] == "COMPLETED"


def test_where_nothing_was_written_down_what_is_there_is_taken(cluster, task, submit_config):
    cluster.looks = [COMPLETED]
    assert task(config=with_model(submit_config, "any")).start()["state"] == "COMPLETED"


def test_what_is_written_down_is_no_secret(cluster, context, first, with_run):
    first(with_run(judge={"phrase": "CANARY"}))
    assert "CANARY" not in json.dumps([cluster.asked, context["task_state_store"], context["ti"].xcoms])
    (file,) = [file for file in cluster.submissions[0].files if file.path == ASKED_FILE]
    assert file.mode == 0o600


def test_a_job_that_is_only_to_be_recorded_is_looked_at_again_should_it_have_ended(cluster, task, monkeypatch):
    """Were it told as known, the submission would make another one, on top of results that nobody has compared."""
    cluster.looks = [look(job(7))]
    monkeypatch.setattr(cluster, "found", ("7",))
    cluster.outcomes = [Outcome(OutcomeKind.ADOPTED, "job 7 is RUNNING", "7")]
    assert task().start() == Waiting("7")
    assert [given.found for given in cluster.submissions] == [()]


@pytest.mark.parametrize("complete", [True, False])
def test_results_in_a_place_that_is_not_the_chains_stop_it(cluster, task, context, first, with_run, complete):
    def config(limit):
        return with_run(limit=limit, output_jsonl_fpath="/shared/rollouts.jsonl")

    first(config(4))
    cluster.looks = [COMPLETED if complete else look(FAILED, verdict=TWO)]
    for _ in range(2):
        cleared(context)
        with pytest.raises(ChainStopped, match=r"rollouts in /shared/rollouts\.jsonl were asked .* run\.limit\. Move"):
            task(config=config(9)).start()
    cluster.looks = [look(FAILED, verdict=Verdict(False, "no rollouts", 0, None))]  # moved away
    assert task(config=config(9)).start() == Waiting("7")


def test_a_shared_place_is_compared_in_a_new_directory_too(cluster, task, context, first, with_run):
    """A green task was cleared: only the memory knows of the results of before."""

    def config(limit):
        return with_run(limit=limit, output_jsonl_fpath="/shared/rollouts.jsonl")

    first(config(4))
    cluster.looks = [COMPLETED]
    task(config=config(4)).start()
    cleared(context)
    cluster.looks = [look(verdict=DONE)]
    with pytest.raises(ChainStopped, match=r"changed in run\.limit\. Move them away"):
        task(config=config(9)).start()


def test_a_config_that_is_another_at_every_try_does_not_begin_anew_for_ever(cluster, task, context, first, with_run):
    tries = iter(range(100))

    def once_more():
        cluster.looks = [look(FAILED, verdict=TWO), look()]
        cluster.outcomes = [SUBMITTED]
        return task(config=with_run(name=f"try {next(tries)}")).start()

    first(with_run(name="first"))
    assert [once_more() for _ in range(5)] == [Waiting("7")] * 5
    with pytest.raises(ChainStopped, match=r"changed in run\.name\. That is so for the 6th time: does the config hold"):
        once_more()
    cleared(context)
    assert once_more() == Waiting("7")
