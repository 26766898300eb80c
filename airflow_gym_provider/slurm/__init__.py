"""Slurm's language: commands out, text in. Pure: nothing here opens a connection or starts a program.

What a script asks is built by `status.status_script` and the builders of `queue` and `accounting`, wrapped by
`remote.RemoteScript`, run by a hook, and read back by `status.parse_status` and `refusals.read_sbatch`.
"""

from airflow_gym_provider.config.durations import format_duration, parse_duration
from airflow_gym_provider.slurm.accounting import JobRow, StepRow, parse_sacct
from airflow_gym_provider.slurm.jobs import JobRef, JobStatus
from airflow_gym_provider.slurm.queue import QueueRow, parse_squeue
from airflow_gym_provider.slurm.refusals import Refusal, SbatchAnswer, read_sbatch
from airflow_gym_provider.slurm.remote import Answer, Frame, Frames, RemoteScript
from airflow_gym_provider.slurm.states import Ending, State, is_live
from airflow_gym_provider.slurm.status import StatusReport, parse_status, status_script

__all__ = [
    "Answer",
    "Ending",
    "Frame",
    "Frames",
    "JobRef",
    "JobRow",
    "JobStatus",
    "QueueRow",
    "Refusal",
    "RemoteScript",
    "SbatchAnswer",
    "State",
    "StatusReport",
    "StepRow",
    "format_duration",
    "is_live",
    "parse_duration",
    "parse_sacct",
    "parse_squeue",
    "parse_status",
    "read_sbatch",
    "status_script",
]
