"""`gym_evals` in a DAG: its shape, its arguments, and where Airflow sets bounds."""

import json

import pytest
from airflow.sdk import DAG, TaskGroup, task, task_group
from airflow.serialization.serialized_objects import DagSerialization

from airflow_gym_provider.operators.retry import ENDLESS, ChainRetryPolicy
from airflow_gym_provider.task_groups import GymEvals, gym_evals

TEMPLATES = {"HF_TOKEN": "{{ conn.hf.password }}", "KEY": "{{ var.value.key }}"}


@task
def made():
    return {}


def test_it_is_validate_then_one_mapped_task_then_summary():
    with DAG("d", schedule=None) as dag:
        group = gym_evals("submit.yaml", ssh_conn_id="gym_cluster", pool="eos", poll_interval=5, retry_delay=9)
    assert isinstance(group, GymEvals)
    assert list(dag.task_dict) == ["gym_evals.validate", "gym_evals.eval", "gym_evals.summary"]
    assert group.evals.upstream_task_ids == {"gym_evals.validate"}
    assert group.summary.upstream_task_ids == {"gym_evals.validate", "gym_evals.eval"}
    assert (group.summary.trigger_rule, group.summary.retries) == ("all_done", 2)
    arguments = group.evals.partial_kwargs
    assert (arguments["run_group"], arguments["map_index_template"]) == ("gym_evals", "{{ task.benchmark }}")
    assert (arguments["pool"], arguments["poll_interval"], arguments["ssh_conn_id"]) == ("eos", 5, "gym_cluster")
    assert (arguments["retries"], type(arguments["retry_policy"])) == (ENDLESS, ChainRetryPolicy)
    assert group.validate.pool == "default_pool"
    assert group["summary"] is group.summary
    assert group.output.operator is group.summary


def test_what_is_left_out_comes_from_the_dag():
    with DAG("d", schedule=None, default_args={"ssh_conn_id": "dags", "pool": "dags", "retries": 3}):
        group = gym_evals("submit.yaml")
        mine = gym_evals("submit.yaml", group_id="mine", default_args={"ssh_conn_id": "groups"})
    assert group.validate.ssh_conn_id == "dags"
    one = group.evals.unmap({"benchmark": "gpqa"})
    assert (one.ssh_conn_id, one.pool, one.retries) == ("dags", "dags", ENDLESS)
    assert group.summary.retries == 2
    assert mine.evals.unmap({"benchmark": "gpqa"}).ssh_conn_id == "groups"


def test_it_stands_between_others_also_inside_a_group_and_twice():
    with DAG("d", schedule=None) as dag:
        before, after = made.override(task_id="before")(), made.override(task_id="after")()
        with TaskGroup("outer"):
            first, second = gym_evals("a.yaml"), gym_evals("b.yaml")
        before >> first >> second >> after
    assert dag.get_task("outer.gym_evals.validate").upstream_task_ids == {"before"}
    assert dag.get_task("outer.gym_evals__1.validate").upstream_task_ids == {"outer.gym_evals.summary"}
    assert dag.get_task("after").upstream_task_ids == {"outer.gym_evals__1.summary"}
    assert second.evals.partial_kwargs["run_group"] == "outer.gym_evals__1"


def test_a_tasks_output_may_be_config_overrides_and_benchmarks_and_the_results_anothers_input():
    with DAG("d", schedule=None) as dag:
        config, names = made.override(task_id="config")(), made.override(task_id="names")()
        group = gym_evals(config, benchmarks=names, overrides=names)

        @task(trigger_rule="all_done")
        def report(results):
            return len(results)

        report(group.output)
    assert dag.get_task("gym_evals.validate").upstream_task_ids == {"config", "names"}
    assert dag.get_task("report").upstream_task_ids == {"gym_evals.summary"}
    assert [leaf.task_id for leaf in dag.leaves] == ["report"]


def test_inside_a_mapped_group_the_error_says_what_else_to_do():
    with DAG("d", schedule=None):

        @task_group
        def per_checkpoint(checkpoint):
            gym_evals("submit.yaml", overrides=[f"@policy.model={checkpoint}"])

        with pytest.raises(ValueError, match=r"(?s)mapped task group.*in a loop"):
            per_checkpoint.expand(checkpoint=["/7", "/8"])


def test_airflow_stores_templates_and_no_values():
    with DAG("d", schedule=None) as dag:
        gym_evals("submit.yaml", environ=TEMPLATES)
        with pytest.raises(ValueError, match="HF_TOKEN"):
            gym_evals("submit.yaml", environ={"HF_TOKEN": "CANARY"})
    stored = json.dumps(DagSerialization.to_dict(dag))
    assert TEMPLATES["HF_TOKEN"] in stored


def test_an_unknown_argument_is_named():
    with DAG("d", schedule=None), pytest.raises(TypeError, match="poll_intervall"):
        gym_evals("submit.yaml", poll_intervall=5)
