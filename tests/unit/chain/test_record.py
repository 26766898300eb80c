"""The submission record is read as far as its version is known."""

from __future__ import annotations

import json

import pytest

from airflow_gym_provider.chain import RecordEntry, RecordHead, read_record
from airflow_gym_provider.chain.record import entry_head, record_template

HEAD = RecordHead("gym-job-x", "2026-01-31T08:00:00Z", "cluster", "0.7.0", None, None, "me", {"a": '@benchmarks@ "q"'})
ENTRY = {"benchmark": "gpqa", "job_dir": "/r/gpqa", "job_id": "101", "error": None}


def record(**changes) -> str:
    return json.dumps({"schema_version": 1, "benchmarks": [ENTRY], "run_dir": "/r"} | changes)


def test_a_record_is_read():
    read = read_record(record())
    assert read.benchmarks == (RecordEntry("gpqa", "/r/gpqa", "101", None),)
    assert read.fields["run_dir"] == "/r"


def test_fields_of_another_writer_do_no_harm():
    assert read_record(record(extra=1, benchmarks=[ENTRY | {"more": 2}])).benchmarks[0].job_id == "101"


def test_a_record_says_to_which_cluster_a_job_was_sent():
    assert read_record(record(benchmarks=[ENTRY | {"slurm_cluster": "c2"}])).benchmarks[0].slurm_cluster == "c2"


@pytest.mark.parametrize("version", [2, 99])
def test_a_newer_record_is_refused_with_both_versions(version):
    with pytest.raises(ValueError, match=rf"schema_version {version}.*up to 1"):
        read_record(record(schema_version=version))


@pytest.mark.parametrize("text", ["", "[]", "{}", '"x"', "null", '{"schema_version": 1}', record(schema_version="1")])
def test_what_is_no_record_is_refused(text):
    with pytest.raises(ValueError, match=r"gym-job\.json"):
        read_record(text)


def test_the_template_is_a_record_once_its_gap_is_filled():
    lines = record_template(HEAD, "/r", ("gpqa", "mmlu")).splitlines()
    assert lines[0] == "gpqa mmlu"
    assert lines.count("@benchmarks@") == 1
    filled = json.loads("\n".join(lines[1:]).replace("\n@benchmarks@\n", "\n"))
    assert filled["executor_metadata"] == {"a": '@benchmarks@ "q"'}
    assert list(filled)[-3:] == ["benchmarks", "executor_metadata", "schema_version"]
    assert json.loads("{" + entry_head("gpqa", '/r/"q"') + "}") == {"benchmark": "gpqa", "job_dir": '/r/"q"'}
