"""The sensor: what it is given, what it waits for, what it says."""

import json
from datetime import timedelta

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskDeferred

from airflow_gym_provider.exceptions import SlurmUnreachableError
from airflow_gym_provider.sensors.slurm import SlurmJobSensor, wanted_jobs
from airflow_gym_provider.slurm.accounting import JobRow
from airflow_gym_provider.slurm.settling import Asked, settle
from airflow_gym_provider.slurm.states import Ending
from airflow_gym_provider.slurm.status import JobRef, JobStatus
from airflow_gym_provider.triggers.observe import Observation

RECORD = {
    "schema_version": 1,
    "benchmarks": [
        {"benchmark": "a", "job_dir": "/r/a", "job_id": "7", "error": None},
        {"benchmark": "b", "job_dir": "/r/b", "job_id": "8", "error": None},
    ],
}


def status(job_id, ending=None):
    state = ending.value if ending else "RUNNING"
    return JobStatus(JobRef(job_id), state=state, live=ending is None, known=True, ending=ending, exit_code=1, signal=0)


@pytest.fixture
def sensor(monkeypatch):
    """A sensor of jobs 7 and 8 whose looks are `sensor.answers`, one after the other."""
    made = SlurmJobSensor(task_id="wait", jobs=["7", "8"])
    made.answers = []
    monkeypatch.setattr(SlurmJobSensor, "_look", lambda self: self.answers.pop(0))
    return made


@pytest.mark.parametrize("given", [7, "7", [7], ["7"]])
def test_ids(given):
    assert wanted_jobs(given) == {"7": None}


@pytest.mark.parametrize("given", [RECORD, json.dumps(RECORD)])
def test_a_record(given):
    assert wanted_jobs(given) == {"7": "/r/a", "8": "/r/b"}


@pytest.mark.parametrize(("job_id", "cluster", "key"), [("7", "c2", "7;c2"), ("7;c2", "c2", "7;c2"), ("7", None, "7")])
@pytest.mark.parametrize("folder", [5, "not/absolute", None])
def test_a_record_of_a_site_with_several_clusters(job_id, cluster, key, folder):
    entry = {"benchmark": "a", "job_id": job_id, "slurm_cluster": cluster, "job_dir": folder}
    assert wanted_jobs({"benchmarks": [entry]}) == {key: None}


def test_somebody_elses_job_of_that_number_makes_nothing_green(monkeypatch):
    """A record of a release that kept no cluster in it: on the default one, another job has the number."""
    others = [JobRow("7", "COMPLETED", work_dir="/home/other")]

    def look(sensor):
        refs = sensor._trigger().refs()
        return Observation({ref.key: settle(ref, [], others, Asked(True, True)) for ref in refs}, answered=True)

    monkeypatch.setattr(SlurmJobSensor, "_look", look)
    sensor = SlurmJobSensor(task_id="wait", jobs={"benchmarks": [RECORD["benchmarks"][0]]}, lost_timeout=0.0)
    with pytest.raises(AirflowFailException, match="unknown to squeue and sacct: 7"):
        sensor.poke({})


@pytest.mark.parametrize("entry", [{"slurm_cluster": "c2 -M"}, {"slurm_cluster": ["c2"]}, {"job_dir": "/a\0b"}])
def test_a_record_that_no_command_could_be_given(entry):
    with pytest.raises(AirflowFailException, match="`jobs`"):
        wanted_jobs({"benchmarks": [RECORD["benchmarks"][0] | entry]})


HOSTILE_IDS = ("12; touch pwned", "12;-M", "12;", "--help", "1,2", "1_[0-3]", "7\n", "$(id)", "٣", "1" * 11, "12;a b")


@pytest.mark.parametrize("given", ["", [], "soon", {}, {"benchmarks": []}, *HOSTILE_IDS])
def test_what_names_no_job(given):
    with pytest.raises(AirflowFailException, match="`jobs`"):
        wanted_jobs(given)


@pytest.mark.parametrize("job_id", HOSTILE_IDS)
def test_a_record_whose_id_is_none(job_id):
    with pytest.raises(AirflowFailException, match="`jobs`"):
        wanted_jobs({"benchmarks": [{"benchmark": "a", "job_id": job_id, "error": None}]})


def test_a_benchmark_that_was_never_queued():
    record = {"benchmarks": [*RECORD["benchmarks"], {"benchmark": "c", "job_id": None, "error": "no such partition"}]}
    with pytest.raises(AirflowFailException, match="c: no such partition"):
        wanted_jobs(record)


def test_it_defers_only_when_there_is_something_to_wait_for(sensor):
    sensor.answers = [Observation({"7": status("7"), "8": status("8")}, answered=True)]
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute({})
    arguments = deferred.value.trigger.serialize()[1]
    assert arguments["job_ids"] == ["7", "8"]
    assert (arguments["job_dir"], arguments["job_dirs"]) == (None, [None, None])
    sensor._follower = None
    done = {key: status(key, Ending.COMPLETED) for key in ("7", "8")}
    sensor.answers = [Observation(done, answered=True)]
    assert sensor.execute({}) is None


def test_an_outage_is_waited_for(sensor):
    sensor.answers = [Observation.failed(SlurmUnreachableError("away"))]
    assert sensor.poke({}) is False


def test_one_that_ended_otherwise_fails_it(sensor):
    ended = {"7": status("7", Ending.COMPLETED), "8": status("8", Ending.FAILED)}
    sensor.answers = [Observation(ended, answered=True)]
    with pytest.raises(AirflowFailException, match=r"job 8 ended FAILED 1:0"):
        sensor.poke({})


@pytest.mark.parametrize(
    ("event", "words"),
    [
        ({"reason": "lost", "text": "unknown to squeue and sacct: 8", "jobs": []}, "unknown to squeue and sacct: 8"),
        ({"reason": "refused", "text": "login refused", "jobs": []}, "login refused"),
        ({}, "None"),
    ],
)
def test_events_that_are_no_success(sensor, event, words):
    with pytest.raises(AirflowFailException, match=words):
        sensor.execute_complete({}, event)


def test_completed_is_a_success(sensor):
    jobs = [{"job_id": "7", "state": "COMPLETED", "ending": "COMPLETED", "exit_code": 0, "signal": 0, "elapsed": 5}]
    sensor.execute_complete({}, {"reason": "ended", "jobs": jobs})


@pytest.mark.parametrize("how", [{"soft_fail": True}, {"never_fail": True}])
def test_a_failure_that_is_to_be_skipped_is_skipped_at_the_first_look_too(sensor, how):
    for name, value in how.items():
        setattr(sensor, name, value)
    sensor.answers = [Observation({"7": status("7", Ending.FAILED), "8": status("8", Ending.COMPLETED)})]
    with pytest.raises(AirflowSkipException, match="job 7 ended FAILED 1:0"):
        sensor.execute({})


def test_jobs_that_are_none_fail_also_softly():
    with pytest.raises(AirflowFailException, match="`jobs`"):
        SlurmJobSensor(task_id="wait", jobs="soon", soft_fail=True).execute({})


def test_a_worker_that_lets_go_would_forget_how_long_a_job_was_lost():
    with pytest.raises(ValueError, match="deferrable=True, which frees the worker as well"):
        SlurmJobSensor(task_id="wait", jobs="7", deferrable=False, mode="reschedule")
    assert SlurmJobSensor(task_id="wait", jobs="7", mode="reschedule").deferrable


@pytest.mark.parametrize("name", ["poll_interval", "poke_interval"])
@pytest.mark.parametrize("value", [90, timedelta(seconds=90)])
def test_seconds_between_two_looks_by_our_name_and_by_airflows(name, value):
    sensor = SlurmJobSensor(task_id="wait", jobs="7", **{name: value})
    assert (sensor.poll_interval, sensor.poke_interval, sensor._trigger().poll_interval) == (90, 90, 90)


@pytest.mark.parametrize("value", [0, -5, float("nan"), float("inf"), None, "soon", True, timedelta(0)])
@pytest.mark.parametrize("name", ["poll_interval", "lost_timeout"])
def test_what_is_no_time_is_refused_in_the_dag_file(name, value):
    if name == "lost_timeout" and value in (0, timedelta(0)) and value is not True:
        assert SlurmJobSensor(task_id="wait", jobs="7", lost_timeout=value).lost_timeout == 0
        return
    with pytest.raises(ValueError, match=f"{name} is .*; write"):
        SlurmJobSensor(task_id="wait", jobs="7", **{name: value})


def test_records_as_a_template_or_a_mapped_task_gives_them():
    assert wanted_jobs(repr(RECORD)) == {"7": "/r/a", "8": "/r/b"}
    assert wanted_jobs([RECORD, {"benchmarks": [{"benchmark": "c", "job_id": "9"}]}, 10]) == {
        "7": "/r/a",
        "8": "/r/b",
        "9": None,
        "10": None,
    }


@pytest.mark.parametrize("text", ["{", "[1", "{x: 1}", "{'a': __import__('os')}", "[" * 5000])
def test_text_that_is_no_record_fails_in_words(text):
    with pytest.raises(AirflowFailException, match="`jobs` must be job ids or a submission record"):
        wanted_jobs(text)


@pytest.mark.parametrize("number", [0, "0", "00", "07", 4294967294, "4294967295"])
def test_numbers_that_no_job_has(number):
    """squeue refuses the whole question for one of these, so nobody else's job would be seen either."""
    with pytest.raises(AirflowFailException, match="`jobs`"):
        wanted_jobs(number)
    assert wanted_jobs(4294967293) == {"4294967293": None}
