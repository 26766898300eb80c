"""Many benchmarks in one run, and many runs of one benchmark. load.yaml, beside this file, is written by the tests."""

from datetime import timedelta

from airflow.sdk import DAG
from e2e_configs import CLUSTER

from airflow_gym_provider.operators.gym import GymEvalOperator
from airflow_gym_provider.task_groups import gym_evals

DEFAULTS = {"retry_delay": timedelta(seconds=2), "ssh_conn_id": CLUSTER, "poll_interval": 5, "config": "load.yaml"}
MOST = {"max_active_runs": 64, "max_active_tasks": 64}

with DAG("e2e_load_wide", default_args=DEFAULTS, **MOST):
    gym_evals("load.yaml", benchmarks="wide*")

with DAG("e2e_load_many", default_args=DEFAULTS, **MOST):
    GymEvalOperator(task_id="only", benchmark="single")

with DAG("e2e_load_inside", default_args=DEFAULTS, **MOST):
    # In the workers all the time, and there must be some in each of them.
    GymEvalOperator.partial(task_id="inside", deferrable=False).expand(benchmark=["in0", "in1", "in2", "in3"])

with DAG("e2e_load_told", default_args=DEFAULTS):
    GymEvalOperator(task_id="told", benchmark="told")

with DAG("e2e_load_killed", default_args=DEFAULTS):
    GymEvalOperator(task_id="deferred", benchmark="killed")
    GymEvalOperator(task_id="in_worker", benchmark="killed", deferrable=False)
