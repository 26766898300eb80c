"""What a look says of a chain beyond its jobs' states."""

from dataclasses import replace

import pytest

from airflow_gym_provider.chain import ChainLook, ChainPlace
from airflow_gym_provider.operators._evidence import began
from airflow_gym_provider.slurm.accounting import JobRow
from airflow_gym_provider.slurm.status import JobRef, JobStatus

PLACE = ChainPlace("gpqa", "/out/run/gpqa", "gym-gpqa-1")
ROWS = (JobRow("7", "COMPLETED", submit="1970-01-01T00:02:00"), JobRow("7", "PREEMPTED", submit="1970-01-01T00:01:00"))


@pytest.mark.parametrize(
    ("recorded", "rows", "at"),
    [(30.0, ROWS, 30.0), (None, ROWS, 60.0), (None, (JobRow("7", "RUNNING"),), None), (None, (), None)],
)
def test_a_chain_began_when_its_first_job_was_submitted_as_far_as_anybody_knows(recorded, rows, at):
    first = JobStatus(JobRef("7", submitted_at=recorded), rows=rows)
    chain = ChainLook(PLACE, jobs=(first, JobStatus(JobRef("8", submitted_at=900.0))))
    assert began(chain) == at
    assert began(replace(chain, jobs=())) is None
