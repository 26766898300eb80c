"""Everything real but the GPU and the container: vLLM on the CPU, gym, Slurm, Airflow."""

import json
from datetime import timedelta

from airflow.sdk import DAG
from e2e_configs import CLUSTER, FOLDER

from airflow_gym_provider.operators.gym import GymEvalOperator

FACTS = json.loads((FOLDER / "e2e_real_stack.json").read_text())

with DAG("e2e_real_stack", default_args={"retry_delay": timedelta(seconds=2), "ssh_conn_id": CLUSTER}):
    GymEvalOperator(task_id="evaluated", config=FACTS["config"], environ=FACTS["environ"], overrides=FACTS["overrides"])
