"""The real gym, twice at the same time: once undisturbed, once with a job whose driver is ended half-way."""

import json
from datetime import timedelta

from airflow.sdk import DAG
from e2e_configs import CLUSTER, FOLDER

from airflow_gym_provider.operators.gym import GymEvalOperator

FACTS = json.loads((FOLDER / "e2e_real_gym.json").read_text())

DEFAULTS = {"retry_delay": timedelta(seconds=2), "ssh_conn_id": CLUSTER, "poll_interval": 5}

with DAG("e2e_real_gym", default_args=DEFAULTS):
    for name in ("undisturbed", "interrupted"):
        GymEvalOperator(
            task_id=name, config=FACTS["config"], environ=FACTS["environ"], overrides=FACTS["overrides"][name]
        )
