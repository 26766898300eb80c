"""Every way for a job to end that the other DAGs leave out, each judged in one task."""

from datetime import timedelta

from airflow.sdk import DAG
from e2e_configs import CLUSTER, LONG_ENOUGH, command, config, gate, rollouts

from airflow_gym_provider.operators.gym import GymEvalOperator

DEFAULTS = {"retries": 3, "retry_delay": timedelta(seconds=2), "ssh_conn_id": CLUSTER, "poll_interval": 5}
NO_RETRY, ONE_RETRY = {"max_retries": 0}, {"max_retries": 1}

with DAG("e2e_table", default_args=DEFAULTS):
    progress = rollouts(5, after=3, code=75, resumable=NO_RETRY)
    GymEvalOperator(task_id="progress", config=config(progress=progress))
    nothing_left = rollouts(5, after=3, code=76, resumable={"max_retries": 3})
    GymEvalOperator(task_id="nothing_left", config=config(nothing_left=nothing_left))
    GymEvalOperator(task_id="resultless", config=config(resultless=rollouts(5, after=0, code=0)), results_timeout=5)
    capped = rollouts(15, after=2, code=75, resumable=NO_RETRY | {"max_walltime": "00:00:30"})
    GymEvalOperator(task_id="capped", config=config(capped=capped))
    GymEvalOperator(task_id="stopped", config=config(stopped=gate("never")))
    unstarted = config(unstarted=rollouts(3, resumable=NO_RETRY))
    unstarted["compute"]["slurm"]["extra_args"] = {"hold": ""}
    GymEvalOperator(task_id="unstarted", config=unstarted)

# Where squeue and sacct say what no machine without a cause can be brought to: tests/e2e/slurm_told.
with DAG("e2e_told", default_args=DEFAULTS | {"ssh_conn_id": "gym_told"}):
    GymEvalOperator(task_id="memory", config=config(memory=rollouts(5, after=3, resumable=ONE_RETRY)))
    for benchmark in ("late", "unbootable"):
        ended = command(f"sleep {LONG_ENOUGH}", "exit 1")
        GymEvalOperator(task_id=benchmark, config=config(**{benchmark: ended}))
    GymEvalOperator(task_id="newfangled", config=config(newfangled=rollouts(3)))
    unknown = command(f"sleep {LONG_ENOUGH}")  # slurm_told knows it by its name
    GymEvalOperator(task_id="lost", config=config(lost=unknown), lost_timeout=10)
    purged = rollouts(8, after=3, code=75, resumable=NO_RETRY | {"max_walltime": "01:00:00"})
    GymEvalOperator(task_id="purged", config=config(purged=purged))
