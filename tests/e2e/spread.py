"""An Airflow of several machines beside the Slurm that there is: CeleryExecutor, two workers, two triggerers.

No two of its parts share a home, a temporary folder, DAG files or a key file; what one writes there is of no use to
another.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

from stack import SETTINGS, Stack


class Spread(Stack):
    """Its runs and gates are its own, the cluster is that of `slurm`. `down` leaves the cluster alone."""

    workers: Sequence[str] = ("worker-1", "worker-2")
    triggerers: Sequence[str] = ("triggerer-1", "triggerer-2")
    parts = ("scheduler", "dag-processor", "api-server", *workers, *triggerers)
    shape = ("--celery",)
    settings = SETTINGS | {
        "AIRFLOW__CORE__PARALLELISM": "16",
        # What a lost worker had is missed after half a minute, also what it had not begun with.
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "30",
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
        "AIRFLOW__SCHEDULER__TASK_QUEUED_TIMEOUT": "60",
        "AIRFLOW__SCHEDULER__TASK_QUEUED_TIMEOUT_CHECK_INTERVAL": "10",
        "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "15",
    }

    def __init__(self, slurm: Stack, dags: Sequence[Path]) -> None:
        super().__init__(slurm.folder / "spread", dags)
        self.cluster = slurm.cluster

    def _more_connections(self) -> dict[str, str]:
        """The cluster's, with its private key inside instead of the path of a file."""
        values = json.loads(self.cluster["AIRFLOW_CONN_GYM_CLUSTER"])
        values["extra"]["private_key"] = Path(values["extra"].pop("key_file")).read_text()
        return {"AIRFLOW_CONN_GYM_CLUSTER": json.dumps(values)}

    def down(self) -> None:
        """End Airflow; the folder stays."""
        self.down_airflow()

    def machine(self, part: str) -> Path:
        """The files of one part."""
        return self.home / "machines" / part

    def processes(self, part: str) -> list[int]:
        """All that one part has running."""
        found = subprocess.run(["pgrep", "-s", str(self.leader(part))], capture_output=True, text=True, check=False)
        return [int(pid) for pid in found.stdout.split()]
