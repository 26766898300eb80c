"""What happens to a Slurm job when people, signals or the clock get between Airflow and it."""

import os
from datetime import timedelta
from functools import partial

from airflow.sdk import DAG
from e2e_configs import CLUSTER, FOLDER, config, gate, rollouts, waiting

from airflow_gym_provider.operators.gym import GymEvalOperator

DEFAULTS = {"retry_delay": timedelta(seconds=2), "ssh_conn_id": CLUSTER, "poll_interval": 5}


def expose(context, *, moment):
    """Tell tests/e2e/slurm_killing/sbatch which process to kill, and when; in the first try only."""
    ti = context["ti"]
    if ti.try_number == 1:
        (FOLDER / "kills" / ti.task_id).write_text(f"{os.getpid()} {moment}\n")


with DAG("e2e_marked", default_args=DEFAULTS):
    # scancel takes its time there, as it does on a busy login node
    GymEvalOperator(task_id="deferred", config=config(deferred=gate("never")), ssh_conn_id="gym_slow")
    GymEvalOperator(task_id="in_worker", config=config(in_worker=gate("never")), deferrable=False)
    GymEvalOperator(task_id="deferred_green", config=config(deferred_green=gate("never")))
    GymEvalOperator(task_id="in_worker_green", config=config(in_worker_green=gate("never")), deferrable=False)
    # sbatch takes longer there than Airflow takes to end the task
    GymEvalOperator(task_id="slipping", config=config(slipping=gate("never")), ssh_conn_id="gym_slow")

with DAG("e2e_cleared", default_args=DEFAULTS):
    GymEvalOperator(task_id="cleared", config=config(cleared=gate("cleared")))
    GymEvalOperator(task_id="in_worker", config=config(cleared_in_worker=gate("cleared")), deferrable=False)
    two = config(left=waiting("cleared"), right=waiting("cleared"))
    GymEvalOperator.partial(task_id="mapped", config=two).expand(benchmark=["left", "right"])

with DAG("e2e_again", default_args=DEFAULTS):
    # two answers a job, and no retry
    failing = rollouts(5, after=2, resumable={"max_retries": 0})
    GymEvalOperator(task_id="failed", config=config(failed=failing))
    GymEvalOperator(task_id="green", config=config(green=rollouts(2)))

with DAG("e2e_deadline", default_args=DEFAULTS):
    GymEvalOperator(task_id="deferred", config=config(late=gate("never")), execution_timeout=timedelta(seconds=60))
    GymEvalOperator(
        task_id="in_worker",
        config=config(later=gate("never")),
        execution_timeout=timedelta(seconds=60),
        deferrable=False,
    )

with DAG("e2e_killed", default_args=DEFAULTS):
    for moment in ("early", "late"):
        GymEvalOperator(
            task_id=f"worker_{moment}",
            config=config(**{f"worker_{moment}": gate("killed")}),
            ssh_conn_id="gym_killing",
            pre_execute=partial(expose, moment=moment),
        )
    GymEvalOperator(task_id="triggerer", config=config(triggerer=gate("killed")))
