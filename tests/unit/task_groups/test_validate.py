"""`validate`: every mistake in one error, before anything touches the cluster."""

from datetime import timedelta

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

from airflow_gym_provider.task_groups._validate import GymValidateOperator


@pytest.fixture
def run(context, submit_config):
    section = submit_config["driver"]["benchmarks"]["gpqa"]
    submit_config["driver"]["benchmarks"] = {name: dict(section) for name in ("gpqa", "mmlu", "mmlu_pro")}

    def run(**arguments):
        operator = GymValidateOperator(**({"task_id": "validate", "config": submit_config} | arguments))
        operator.render_template_fields(context)
        return operator.execute(context)

    return run


def test_it_returns_the_names_that_are_wanted(run):
    assert run() == ["gpqa", "mmlu", "mmlu_pro"]
    assert run(benchmarks=["mmlu*"]) == ["mmlu", "mmlu_pro"]
    assert run(benchmarks="{{ ['gpqa', 'mmlu'] }}") == ["gpqa", "mmlu"]


def test_all_that_can_be_known_is_in_one_error(run, submit_config):
    compute = submit_config["compute"]["c"]
    compute["node_pools"]["other"] = {"partition": "elsewhere"}
    compute["forward_env"] = ["NOT_THERE"]
    submit_config["services"]["policy"]["node_pool"] = "main"
    with pytest.raises(AirflowFailException) as caught:
        run(benchmarks=["gqpa"])
    text = str(caught.value)
    assert "did you mean 'gpqa'?" in text
    assert "pools disagree on partition" in text
    assert "NOT_THERE is not set" in text
    assert text.count("pools disagree on partition") == 1


def test_what_the_scripts_of_all_benchmarks_lack_is_told_once(run, submit_config):
    submit_config["driver"]["env"] = {"UID": "lit:0"}
    submit_config["services"]["policy"]["extra_args"] = "--x '"
    for name in ("gpqa", "mmlu"):
        submit_config["driver"]["benchmarks"][name]["prepare"] = {f"{name} x": 1}
    submit_config["driver"]["benchmarks"]["mmlu"]["run"] = {"output_jsonl_fpath": 5}
    with pytest.raises(AirflowFailException) as caught:
        run()
    assert [line.split(":")[0] for line in str(caught.value).splitlines()[1:]] == [
        "  - services.policy.extra_args",
        "  - driver.env.UID",
        "  - driver.benchmarks.gpqa.prepare.gpqa x",
        "  - driver.benchmarks.mmlu.prepare.mmlu x",
        "  - driver.benchmarks.mmlu.run.output_jsonl_fpath",
    ]


def test_mistakes_of_the_config_come_as_they_are(run, submit_config):
    submit_config["compute"]["c"]["walltime"] = "four hours"
    submit_config["driver"]["benchmarks"]["gpqa"]["resumeable"] = True
    with pytest.raises(AirflowFailException, match=r"(?s)2 problems.*walltime.*resumeable|2 problems.*resumeable"):
        run()


def test_a_value_from_environ_is_there_and_hidden(run, submit_config, monkeypatch):
    masked = []
    monkeypatch.setattr("airflow_gym_provider.operators._config.mask_secret", masked.extend)
    submit_config["driver"]["env"] = {"HF_TOKEN": "host:HF_TOKEN"}
    submit_config["compute"]["c"]["forward_env"] = ["API_KEY"]
    given = {"HF_TOKEN": "CANARY-{{ ti.run_id }}", "API_KEY": "FORWARDED-{{ ti.run_id }}"}
    assert run(environ=given, benchmarks="gpqa") == ["gpqa"]
    assert {"CANARY-r1", "FORWARDED-r1"} <= set(masked)


def test_a_param_that_is_misspelt_in_conf_is_not_passed_over(run, context):
    context["dag"].params = {"checkpoint": None, "limit": 3}
    context["dag_run"].conf = {"ticket": "OPS-7", "limit": 5}
    assert run(benchmarks="gpqa") == ["gpqa"]
    context["dag_run"].conf["checkpiont"] = "/x"
    with pytest.raises(AirflowFailException, match=r"conf has 'checkpiont'.*did you mean 'checkpoint'"):
        run(benchmarks="gpqa")


def test_it_begins_again_soon_when_the_worker_fails_unless_told_otherwise():
    """All benchmarks wait for it."""
    assert GymValidateOperator(task_id="validate", config="c.yaml").retry_delay == timedelta(seconds=30)
    with DAG("d", default_args={"retry_delay": timedelta(minutes=2)}):
        assert GymValidateOperator(task_id="validate", config="c.yaml").retry_delay == timedelta(minutes=2)
