"""What counts as asked for otherwise: all that makes other rollouts, and nothing that does not."""

import copy
import json

import pytest

from airflow_gym_provider.config import load_submit_config
from airflow_gym_provider.operators._asked import Asked, asked_of
from airflow_gym_provider.operators._submit import job_files

HERE = "/out/gym-job-1/gpqa"
OWN = {"run": {}, "resumable": False}


@pytest.fixture
def asked(submit_config):
    """asked(section of the benchmark, …) as the config asks then."""

    def make(section=None, job_dir=HERE, environ=None, **driver):
        given = copy.deepcopy(submit_config)
        given["driver"] |= driver
        given["driver"]["benchmarks"]["gpqa"] |= section or {}
        return asked_of(load_submit_config(given, environ=environ or {}), "gpqa", job_dir)

    return make


@pytest.mark.parametrize(
    ("before", "now", "names"),
    [
        ({"limit": 4}, {"limit": 100, "num_repeats": 8}, ["run.limit", "run.num_repeats"]),
        ({"split": "train"}, {"split": "benchmark"}, ["run.split"]),
        ({"config_paths": ["a.yaml"]}, {"config_paths": ["a.yaml", "b.yaml"]}, ["run.config_paths"]),
        ({"input_jsonl_fpath": "/d/a.jsonl"}, {"input_jsonl_fpath": "/d/b.jsonl"}, ["run.input_jsonl_fpath"]),
        ({"prompt_config": "a.yaml"}, {"prompt_config": "b.yaml"}, ["run.prompt_config"]),
        ({"num_repeats_add_seed": True}, {"num_repeats_add_seed": False}, ["run.num_repeats_add_seed"]),
        ({"dataset": {"url": "https://a/one"}}, {"dataset": {"url": "https://a/two"}}, ["run.dataset.url"]),
        ({"judge_endpoint": {"model": "a"}}, {"judge_endpoint": {"model": "b"}}, ["run.judge_endpoint.model"]),
        ({"agent": {"sandbox_timeout": 1}}, {"agent": {"sandbox_timeout": 2}}, ["run.agent.sandbox_timeout"]),
        ({"question": "see https://a"}, {"question": "see https://b"}, ["run.question"]),
        *(
            ({"responses_create_params": {name: 1}}, {"responses_create_params": {name: 2}}, [f"run.{place}"])
            for name in ("temperature", "max_output_tokens", "top_p", "seed", "stop_token", "parallel_tool_calls")
            for place in [f"responses_create_params.{name}"]
        ),
    ],
)
def test_what_makes_other_rollouts_counts(asked, before, now, names):
    assert asked({"run": before}).changed(asked({"run": now})) == names
    assert asked({"prepare": before}).changed(asked({"prepare": now})) == [
        name.replace("run.", "prepare.") for name in names
    ]


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ({"num_samples_in_parallel": 8}, {"num_samples_in_parallel": None}),
        ({"agent": {"concurrency": 8, "max_concurrent_requests": 1, "num_workers": 1}}, {}),
        ({"global_aiohttp_connector_limit_per_host": 8, "global_aiohttp_client_request_timeout": 9}, {}),
        ({"judge_base_url": "http://a:8000/v1"}, {"judge_base_url": "http://b:9000/v2"}),
        ({"judge": "http://a:8000/v1"}, {"judge": "https://me:secret@b/v1"}),
        ({"head_server": {"host": "a", "port": 1}, "default_host": "b", "port_range_low": 3}, {}),
        ({"ray_head_node_address": "a:1", "use_absolute_ip": True}, {}),
        ({"judge_api_key": "CANARY-1", "hf_token": "CANARY", "headers": {"Authorization": "x"}}, {}),
        ({"output_jsonl_fpath": "artifacts/mine.jsonl"}, {}),
        ({"nemo_gym_log_dir": "/l", "results_dir": "/r", "uv_venv_dir": "/v", "skip_venv_if_present": True}, {}),
        ({"observability_enabled": False}, {"model_call_capture_dir": "/c"}),
        ({"wandb_project": "a", "wandb": {"name": "b"}, "upload_rollouts_to_wandb": False}, {"telemetry": {"x": 1}}),
        ({"require_complete": False, "resume_from_cache": True, "route_failures_to_sidecar": True}, {}),
        ({"responses_create_params": {"temperature": 1.0}}, {"responses_create_params.temperature": 1}),
        ({"a": {"b": [1, {"c": 2.0, "port": 1}]}}, {"a.b": [1, {"port": 2, "c": 2}]}),
        ({"limit": "${oc.env:LIMIT}"}, {"limit": "4"}),
    ],
)
def test_what_makes_none_does_not(asked, before, now):
    environ = {"LIMIT": "4"}
    was, is_now = asked({"run": before}, environ=environ), asked({"run": now}, environ=environ)
    assert (was.changed(is_now), was.told(is_now, "they")) == ([], "")


def test_a_command_counts_but_for_addresses_and_the_runs_own_directory(asked):
    command = OWN | {"command": f"harness --limit 4 --url http://a:1/v1 --out {HERE}/x\n"}
    moved = OWN | {"command": "harness --limit 4 --url http://b:2/v1 --out /out/gym-job-2/gpqa/x"}
    other = OWN | {"command": "harness --limit 9 --url http://b:2/v1 --out /out/gym-job-2/gpqa/x"}
    there = "/out/gym-job-2/gpqa"
    assert asked(command).changed(asked(moved, there)) == []
    assert asked(command).changed(asked(other, there)) == ["command"]
    assert asked({"run": {"x": f"{HERE}/x"}}).changed(asked({"run": {"x": f"{there}/x"}}, there)) == []


def test_the_models_api_counts_where_gym_is_told_of_it(asked):
    by_chat = {"policy_model_type": "vllm_model"}
    assert asked().changed(asked(**by_chat)) == ["driver.policy_model_type"]
    own = OWN | {"command": "true"}
    assert asked(own).changed(asked(own, **by_chat)) == []


def test_a_difference_is_told_by_names_alone(asked):
    before, now = asked({"run": {"limit": 4}}), asked({"run": {f"key_{at:02}": "CANARY" for at in range(10)}})
    told = before.told(now, "the 2 rollouts in /r")
    assert told.startswith("the 2 rollouts in /r were asked for before the config changed in run.key_00, run.key_01, ")
    assert told.endswith("run.key_07 and 3 more")
    assert "CANARY" not in told
    other = Asked("gpqa", "", now.keys)
    assert before.told(other, "they") == (
        "they are of policy org/model, and the config names none now; it changed in run.key_00, run.key_01, "
        "run.key_02, run.key_03, run.key_04, run.key_05, run.key_06, run.key_07 and 3 more as well"
    )
    assert other.told(Asked("gpqa", "a b", None), "they") == "they are of no model, and the config names a b now"
    assert before.told(before, "they") == ""


def test_what_lies_beside_the_results_holds_no_value_of_a_run_and_is_for_nobody_else(submit_config):
    submit_config["driver"]["benchmarks"]["gpqa"]["run"] |= {"judge": {"key": "CANARY-1"}, "words": ["CANARY-2"]}
    config = load_submit_config(submit_config, environ={})
    (file,) = [file for file in job_files(config, "gpqa", HERE) if file.path == ".gym_asked"]
    assert file.mode == 0o600
    assert "CANARY" not in file.text
    assert Asked.read(file.text) == asked_of(config, "gpqa", HERE)
    assert {len(digest) for digest in json.loads(file.text)["keys"].values()} == {12}


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"models": 7}', '{"keys": {}}'])
def test_what_is_no_such_file_says_nothing(text):
    assert Asked.read(text) is None


def test_digests_by_another_rule_leave_the_models_to_be_compared(asked):
    now = asked()
    other = Asked.read(json.dumps(now.as_dict() | {"rule": 0}))
    assert (other.models, other.keys) == (now.models, None)
    assert Asked.read(json.dumps(now.as_dict() | {"keys": "x"})).keys is None
    assert (other.told(now, "they"), now.told(other, "they")) == ("", "")


@pytest.fixture
def two_models(submit_config):
    """two_models(run, **driver): as asked, where two services serve a model each and the second one stands by."""

    def make(run=None, ports=(8000, 8001), **driver):
        given = copy.deepcopy(submit_config)
        policy = given["services"]["policy"]
        given["services"] = {
            "policy": policy | {"model": "org/small", "port": ports[0]},
            "other": copy.deepcopy(policy) | {"model": "org/large", "port": ports[1]},
        }
        given["driver"] |= driver
        given["driver"]["benchmarks"]["gpqa"]["run"] |= run or {}
        return asked_of(load_submit_config(given, environ={}), "gpqa", HERE)

    return make


def test_which_of_the_models_is_evaluated_counts(two_models):
    changed = two_models().changed(two_models(policy_model="other"))
    assert changed == ["driver.policy_model", "run.policy_base_url"]
    assert two_models().changed(two_models(ports=(9000, 9001))) == [], "where they are does not"


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", r"\${oc.env:HEAD_NODE_IP}"])
def test_which_of_the_models_judges_counts(two_models, host):
    small, large = ({"judge_base_url": f"http://{host}:{port}/v1"} for port in (8000, 8001))
    assert two_models(small).changed(two_models(large)) == ["run.judge_base_url"]
    elsewhere = {"judge_base_url": "https://judge.example:8001/v1"}
    assert two_models(large).changed(two_models(elsewhere)) == ["run.judge_base_url"]
    moved = {"judge_base_url": f"http://{host}:9001/v1"}
    assert two_models(large).changed(two_models(moved, ports=(9000, 9001))) == []


@pytest.mark.parametrize(
    ("before", "now", "names"),
    [
        ({"SPLIT": "lit:dev"}, {"SPLIT": "lit:test"}, ["driver.env.SPLIT"]),
        ({"SPLIT": "lit:dev", "OTHER": "lit:a"}, {"SPLIT": "lit:dev", "OTHER": "lit:b"}, []),
        ({"TOKEN": "host:A"}, {"TOKEN": "host:B"}, []),
    ],
)
def test_what_a_command_is_given_by_name_counts(asked, before, now, names):
    section = OWN | {"command": "judge --split $SPLIT --key $TOKEN"}
    environ = {"A": "secret-a", "B": "secret-b"}
    was, is_now = (asked(section, environ=environ, env=env) for env in (before, now))
    assert was.changed(is_now) == names
