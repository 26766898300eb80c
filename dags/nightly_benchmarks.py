"""Every night, every benchmark of nightly_benchmarks.yaml: one task each, green only when its results are complete.

To run it on your cluster, edit the YAML beside this file and give Airflow an SSH connection `gym_cluster` that leads to
the login node. A benchmark that hits its walltime goes on in the next Slurm job as the task's next try; clear a task to
run its benchmark again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from airflow.sdk import DAG, task

from airflow_gym_provider.operators.gym import GymEvalOperator

CONFIG = Path(__file__).with_suffix(".yaml")
# Names only. The config is checked when a task runs: a mistake in it is that task's error, not the scheduler's.
BENCHMARKS = list(yaml.safe_load(CONFIG.read_text())["driver"]["benchmarks"])


@task
def report(results: list[dict[str, Any]]) -> dict[str, float]:
    """The night in one place: each benchmark's mean reward."""
    for result in results:
        jobs = ", ".join(f"{job} {state}" for job, state in zip(result["job_ids"], result["job_states"], strict=True))
        print(f"{result['benchmark']}: {result['metrics']} from jobs {jobs}, see {result['job_dir']}")
    return {result["benchmark"]: result["metrics"].get("mean/reward") for result in results}


with DAG(
    dag_id="nightly_benchmarks",
    schedule="0 2 * * *",
    catchup=False,
    max_active_runs=1,
    tags=["gym", "evaluation"],
    doc_md=__doc__,
):
    report(
        [
            GymEvalOperator(
                task_id=benchmark,
                benchmark=benchmark,
                config=str(CONFIG),
                ssh_conn_id="gym_cluster",
                run_group="nightly",  # one run directory and one gym-job.json for the whole night
                poll_interval=5,  # no more often than the connection's own poll_interval allows: 30 unless it says so
            ).output
            for benchmark in BENCHMARKS
        ]
    )
