"""Chains that wait while everything around them is killed and started again."""

from datetime import timedelta

from airflow.sdk import DAG
from e2e_configs import CLUSTER, config, on_node, waiting

from airflow_gym_provider.operators.gym import GymEvalOperator

DEFAULTS = {
    "retry_delay": timedelta(seconds=2),
    "ssh_conn_id": CLUSTER,
    "poll_interval": 5,
    "overrides": ["compute.slurm.walltime=3:00:00", "+driver.env.HOSTED=host:E2E_HOST_SECRET"],
}
WAITING = waiting("outages")


def safe(**benchmarks):
    """A config whose jobs lie where no node fails and nothing takes a node."""
    configured = config(**benchmarks)
    configured["compute"]["slurm"]["extra_args"] = {"nodelist": "n1"}
    return configured


with DAG("e2e_outages", default_args=DEFAULTS):
    GymEvalOperator(task_id="deferred", config=safe(deferred=WAITING))
    GymEvalOperator.partial(task_id="mapped", config=safe(left=WAITING, right=WAITING)).expand(
        benchmark=["left", "right"]
    )
    GymEvalOperator(task_id="in_worker", config=safe(in_worker=WAITING), deferrable=False)
    GymEvalOperator(task_id="orphaned", config=safe(orphaned=WAITING), deferrable=False)
    GymEvalOperator(task_id="forsaken", config=safe(forsaken=WAITING))
    GymEvalOperator(task_id="timed_out", config=safe(timed_out=WAITING))
    GymEvalOperator(task_id="requeued", config=on_node(config(requeued=WAITING), "n2", "low", requeue=""))
    GymEvalOperator(task_id="preempted", config=on_node(config(preempted=WAITING), "n3", "lowcancel"))
    GymEvalOperator(task_id="node_lost", config=on_node(config(node_lost=WAITING), "n4"))
