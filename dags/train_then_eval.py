"""A training run publishes a checkpoint, and its evaluation starts from that event, with the checkpoint's path.

`train` stands for your training: what matters is that it updates the asset with `{"checkpoint": path}` as the event's
extra. `evaluate_checkpoint` is scheduled on the asset. It can be started by hand as well, with a form, and from another
DAG, with `conf` in the form's place: as `train_policy` does for a quick look at one benchmark.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG, Asset, Param, task

from airflow_gym_provider.params import benchmarks_from_params, gym_params, overrides_from_params
from airflow_gym_provider.task_groups import gym_evals

CHECKPOINT = Asset("policy_checkpoint")

with DAG("train_policy", schedule=None, params={"step": Param(1000, type="integer", minimum=1)}, doc_md=__doc__):

    @task(outlets=[CHECKPOINT])
    def train(params: dict[str, Any], outlet_events: Any) -> str:
        """Stands for a training job that leaves its weights on the cluster's file system."""
        path = f"/checkpoints/policy/step-{params['step']}"
        outlet_events[CHECKPOINT].extra = {"checkpoint": path}
        return path

    TriggerDagRunOperator(
        task_id="quick_look",
        trigger_dag_id="evaluate_checkpoint",
        conf={"checkpoint": train(), "benchmarks": ["gpqa"], "limit": 2},
    )

with DAG(
    "evaluate_checkpoint",
    schedule=[CHECKPOINT],
    params=gym_params(benchmarks=["gpqa", "aime25"]),
    tags=["gym", "evaluation"],
    doc_md=__doc__,
):
    gym_evals(
        str(Path(__file__).with_name("nightly_benchmarks.yaml")),
        benchmarks=[benchmarks_from_params(), "!mmlu_pro"],  # which takes too long for every checkpoint
        overrides=overrides_from_params(),  # the form's checkpoint, else the event's
        ssh_conn_id="gym_cluster",
    )
