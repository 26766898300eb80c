"""Every night, every benchmark of nightly_benchmarks.yaml: one task each, green only when its results are complete.

To run it on your cluster, edit the YAML beside this file and give Airflow an SSH connection `gym_cluster` that leads to
the login node. A benchmark that hits its walltime goes on in the next Slurm job as the task's next try; clear a task to
run its benchmark again. The night in one place is the log, and the XCom, of the task `summary`; `report` leaves the
same as a file for people who have no Airflow, report.html in the run directory.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from airflow.sdk import DAG

from airflow_gym_provider.operators.report import GymReportOperator
from airflow_gym_provider.params import benchmarks_from_params, gym_params, overrides_from_params
from airflow_gym_provider.task_groups import gym_evals

with DAG(
    dag_id="nightly_benchmarks",
    schedule="0 2 * * *",
    start_date=datetime(2025, 1, 1),  # so that the last night's run begins as soon as the DAG is switched on
    catchup=False,
    max_active_runs=1,
    params=gym_params(),  # a form for runs that are started by hand; the night leaves it empty
    tags=["gym", "evaluation"],
    doc_md=__doc__,
):
    night = gym_evals(
        str(Path(__file__).with_suffix(".yaml")),
        benchmarks=benchmarks_from_params(),
        overrides=overrides_from_params(),
        ssh_conn_id="gym_cluster",
        poll_interval=5,  # no more often than the connection's own poll_interval allows: 30 unless it says so
    )
    # Beside the summary, not behind it: a run is as green as its last tasks.
    night.evals >> GymReportOperator(task_id="report", eval_task_ids="gym_evals.eval", ssh_conn_id="gym_cluster")
