"""Where the buttons of a task lead, with XComs and connections as Airflow gives them to a worker."""

import json
from types import SimpleNamespace

import pytest
from airflow.sdk import DAG
from airflow.sdk.execution_time.xcom import XCom

from airflow_gym_provider.links import gym as module
from airflow_gym_provider.links.gym import (
    EVAL_LINKS,
    DriverLogLink,
    JobRecordLink,
    ResultsPageLink,
    RunDirectoryLink,
    file_url,
)
from airflow_gym_provider.operators.gym import GymEvalOperator, GymSubmitOperator

TI = SimpleNamespace(dag_id="a dag", run_id="r", task_id="eval", map_index=-1)
PLACE = {
    "benchmark": "gpqa",
    "job_id": "60;c2",
    "run_dir": "/scratch/me & you/gym-job-1",
    "job_dir": "/scratch/me & you/gym-job-1/gpqa",
    "logs": "/scratch/me & you/gym-job-1/gpqa/logs",
    "record": "/scratch/me & you/gym-job-1/gym-job.json",
    "hostname": "login.configs",
}


@pytest.fixture
def pushed(monkeypatch):
    """XComs of the task, by key."""
    values = {"gym_job": PLACE}

    def get_value(*, ti_key, key):
        assert ti_key is TI
        return values.get(key)

    monkeypatch.setattr(XCom, "get_value", get_value)
    return values


@pytest.fixture
def connection(monkeypatch):
    def give(**values):
        given = {"conn_type": "slurm", "host": "login.eos", "login": "m e", "password": "swordfish", "port": 2222}
        monkeypatch.setenv("AIRFLOW_CONN_EOS", json.dumps(given | values))

    give()
    return give


def link(kind, conn_id="eos"):
    return kind().get_link(SimpleNamespace(ssh_conn_id=conn_id), ti_key=TI)


def test_a_sites_file_browser(pushed, connection):
    connection(extra={"files_url": "https://ood.edu/pun/sys/dashboard/files/fs{path}"})
    root = "https://ood.edu/pun/sys/dashboard/files/fs/scratch/me%20%26%20you/gym-job-1"
    assert link(RunDirectoryLink) == root
    assert link(DriverLogLink) == f"{root}/gpqa/logs/driver-60.log"
    assert link(JobRecordLink) == f"{root}/gym-job.json"


def test_a_file_browser_without_a_place_for_the_path(connection):
    connection(extra={"files_url": "https://files.edu/"})
    assert file_url("/scratch/x", "eos") == "https://files.edu/scratch/x"


@pytest.mark.parametrize(
    "bad",
    [
        "javascript:alert(1)//{path}",
        " JavaScript:alert(1)",
        "java\nscript:alert(1)",
        "\x01javascript:alert(1)",
        "data:text/html,{path}",
        "//elsewhere/{path}",
        "/\\elsewhere/{path}",
        "https:elsewhere/{path}",
        "https:///{path}",
        "{path}",
        ["https://files.edu"],
        5,
    ],
)
def test_a_button_leads_to_a_page_and_never_to_a_script(connection, bad):
    connection(extra={"files_url": bad})
    assert file_url("/scratch/x", "eos") == "sftp://m%20e@login.eos:2222/scratch/x"


def test_a_hostile_path_stays_a_path(connection):
    connection(extra={"files_url": "/files{path}"})
    hostile = "/s/../a b?c#d&e%2f\njavascript:\"'<>"
    assert file_url(hostile, "eos") == "/files/s/../a%20b%3Fc%23d%26e%252f%0Ajavascript%3A%22%27%3C%3E"


def test_else_an_sftp_address_without_the_password(pushed, connection):
    assert link(RunDirectoryLink) == "sftp://m%20e@login.eos:2222/scratch/me%20%26%20you/gym-job-1"
    connection(port=22, login=None)
    assert link(RunDirectoryLink) == "sftp://login.eos/scratch/me%20%26%20you/gym-job-1"


def test_a_connection_without_a_host_takes_the_configs(pushed, connection):
    connection(host=None, port=None, login="me")
    assert link(RunDirectoryLink).startswith("sftp://me@login.configs/scratch")


@pytest.mark.parametrize("kind", [RunDirectoryLink, DriverLogLink, JobRecordLink])
def test_no_button_without_a_job_a_connection_or_an_address(kind, pushed, connection, monkeypatch):
    assert link(kind, conn_id=None) == "", "files of the worker itself: nobody serves them"
    assert link(kind, conn_id="unknown") == ""
    pushed.clear()
    assert link(kind) == ""


def test_the_record_that_a_submission_returns_is_enough(pushed, connection):
    pushed.clear()
    pushed["return_value"] = {"run_dir": "/scratch/run", "benchmarks": []}
    assert link(RunDirectoryLink) == "sftp://m%20e@login.eos:2222/scratch/run"
    assert link(JobRecordLink) == "sftp://m%20e@login.eos:2222/scratch/run/gym-job.json"
    assert link(DriverLogLink) == ""


def test_the_results_page_is_relative(pushed):
    pushed["gym_job"] = PLACE | {"benchmark": "a&b"}
    assert link(ResultsPageLink, conn_id=None) == "gym/dags/a%20dag/benchmark?name=a%26b"


def test_no_results_button_without_the_pages(pushed, monkeypatch):
    monkeypatch.setattr(module, "_PAGES", "airflow_gym_provider.links.nothing")
    assert link(ResultsPageLink) == ""


def test_no_results_button_before_there_is_a_job(pushed):
    pushed.clear()
    assert link(ResultsPageLink) == ""


def test_operators_carry_them_mapped_or_not():
    with DAG("d", schedule=None):
        single = GymEvalOperator(task_id="one", config={})
        mapped = GymEvalOperator.partial(task_id="many", config={}).expand(benchmark=["a"])
        queue = GymSubmitOperator(task_id="queue", config={})
    names = [item.name for item in EVAL_LINKS]
    assert names == ["Results", "Run directory", "Driver log", "Job record"]
    assert [item.name for item in single.operator_extra_links] == names
    assert [item.name for item in mapped.operator_extra_links] == names
    assert [item.name for item in queue.operator_extra_links] == ["Run directory", "Job record"]
