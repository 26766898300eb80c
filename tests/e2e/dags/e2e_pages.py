"""Two runs of a small evaluation for the pages, and one whose job can be seen alive."""

from airflow.sdk import DAG
from e2e_configs import CLUSTER, config, rollouts, waiting

from airflow_gym_provider.operators.gym import GymEvalOperator

DEFAULTS = {"ssh_conn_id": CLUSTER, "poll_interval": 2}

with DAG("e2e_pages", default_args=DEFAULTS, params={"limit": 3}):
    small = config(small=rollouts(3))
    GymEvalOperator(
        task_id="small",
        config=small,
        # The second run asks one question more.
        overrides=["driver.benchmarks.small.run.limit={{ params.limit }}"],
    )

with DAG("e2e_live", default_args=DEFAULTS):
    GymEvalOperator(task_id="alive", config=config(alive=waiting("pages", limit=3)))
