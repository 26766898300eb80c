"""How evaluations end: incomplete, out of retries, broken, refused; each judged in one task."""

from datetime import timedelta

from airflow.sdk import DAG
from e2e_configs import CLUSTER, FOLDER, LONG_ENOUGH, command, config, rollouts

from airflow_gym_provider.operators.gym import GymEvalOperator

# retries=3 is what many teams have in their DAGs: it must neither repeat nor cut short anything.
DEFAULTS = {"retries": 3, "retry_delay": timedelta(seconds=2), "ssh_conn_id": CLUSTER, "poll_interval": 5}

with DAG("e2e_endings", default_args=DEFAULTS):
    GymEvalOperator(task_id="short", config=config(short=rollouts(10, after=3, code=0)), results_timeout=5)
    exhausted = rollouts(30, after=1, resumable={"max_retries": 1})
    GymEvalOperator(task_id="exhausted", config=config(exhausted=exhausted))
    GymEvalOperator(task_id="once", config=config(once=rollouts(10, after=1)))

with DAG("e2e_refused", default_args=DEFAULTS):
    mistaken = config(mistaken=rollouts(5, resumeable=True))
    mistaken["compute"]["slurm"]["walltime"] = "four hours"
    GymEvalOperator(task_id="mistaken", config=mistaken)
    unmounted = config(unmounted=rollouts(5))
    unmounted["driver"]["mounts"] = [f"{FOLDER}/no-such-data:/data:ro", f"{FOLDER}:/there"]
    GymEvalOperator(task_id="unmounted", config=unmounted)
    GymEvalOperator(task_id="absent", config=str(FOLDER / "no-such.yaml"))
    GymEvalOperator(task_id="account", config=config(account=rollouts(5)), overrides=["compute.slurm.account=nobody"])

with DAG("e2e_mapped", default_args=DEFAULTS | {"retries": 0}):
    several = config(
        steady=rollouts(4),
        stumbling=rollouts(5, after=3, resumable={"max_retries": 2}),
        broken=command("echo 'nothing works'", f"sleep {LONG_ENOUGH}", "exit 3"),
    )
    GymEvalOperator.partial(task_id="eval", config=several).expand(benchmark=["steady", "stumbling", "broken"])
