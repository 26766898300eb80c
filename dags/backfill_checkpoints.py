"""One evaluation per day, of that day's checkpoint: days that are missing are backfilled, several at once.

    airflow backfill create --dag-id backfill_checkpoints --max-active-runs 4 \\
        --from-date 2025-03-01 --to-date 2025-03-31

or "Trigger" and "Backfill" in the UI. Every run has a directory of its own, so a day that is evaluated again, by hand
with `date` or by a backfill that reprocesses, keeps what was there.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from airflow.sdk import DAG, Param

from airflow_gym_provider.task_groups import gym_evals

with DAG(
    dag_id="backfill_checkpoints",
    schedule="@daily",
    start_date=datetime(2025, 1, 1),
    catchup=False,
    params={
        "date": Param(None, type=["null", "string"], format="date", title="Date", description="Of the checkpoint.")
    },
    tags=["gym", "evaluation"],
    doc_md=__doc__,
):
    gym_evals(
        str(Path(__file__).with_name("nightly_benchmarks.yaml")),
        benchmarks=["gpqa"],
        # The run's own date, unless one is given: a run that is started by hand has none.
        overrides=["@policy.model=/checkpoints/policy/{{ params.date or ds }}"],
        ssh_conn_id="gym_cluster",
        pool="default_pool",  # one of your own with "include deferred" bounds the jobs of all runs on a cluster
    )
