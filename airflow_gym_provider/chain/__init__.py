"""One benchmark's chain of jobs: who it is, what happened so far, what comes next, and how that is done exactly once.

Pure: builders give scripts for a login node, readers take what came back. Names are loaded when they are used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_gym_provider.chain.cancel import CancelReport as CancelReport
    from airflow_gym_provider.chain.cancel import cancel_script as cancel_script
    from airflow_gym_provider.chain.cancel import read_cancel as read_cancel
    from airflow_gym_provider.chain.cancel import read_cancels as read_cancels
    from airflow_gym_provider.chain.counters import counters_script as counters_script
    from airflow_gym_provider.chain.decision import Action as Action
    from airflow_gym_provider.chain.decision import Decision as Decision
    from airflow_gym_provider.chain.decision import after_reading as after_reading
    from airflow_gym_provider.chain.decision import decide as decide
    from airflow_gym_provider.chain.errors import BusyError as BusyError
    from airflow_gym_provider.chain.errors import ChainError as ChainError
    from airflow_gym_provider.chain.errors import CutOffError as CutOffError
    from airflow_gym_provider.chain.errors import ForeignDirectoryError as ForeignDirectoryError
    from airflow_gym_provider.chain.errors import SlurmNotFoundError as SlurmNotFoundError
    from airflow_gym_provider.chain.history import BY_HAND as BY_HAND
    from airflow_gym_provider.chain.history import LOST_GRACE as LOST_GRACE
    from airflow_gym_provider.chain.history import CancelMark as CancelMark
    from airflow_gym_provider.chain.history import ChainHistory as ChainHistory
    from airflow_gym_provider.chain.identity import ChainKey as ChainKey
    from airflow_gym_provider.chain.identity import check_path as check_path
    from airflow_gym_provider.chain.identity import job_name as job_name
    from airflow_gym_provider.chain.identity import run_dir as run_dir
    from airflow_gym_provider.chain.identity import run_dir_name as run_dir_name
    from airflow_gym_provider.chain.limits import Limits as Limits
    from airflow_gym_provider.chain.look import ChainLook as ChainLook
    from airflow_gym_provider.chain.look import Look as Look
    from airflow_gym_provider.chain.look import look_script as look_script
    from airflow_gym_provider.chain.look import read_look as read_look
    from airflow_gym_provider.chain.place import ChainPlace as ChainPlace
    from airflow_gym_provider.chain.place import Seen as Seen
    from airflow_gym_provider.chain.place import Timing as Timing
    from airflow_gym_provider.chain.record import Record as Record
    from airflow_gym_provider.chain.record import RecordEntry as RecordEntry
    from airflow_gym_provider.chain.record import RecordHead as RecordHead
    from airflow_gym_provider.chain.record import read_record as read_record
    from airflow_gym_provider.chain.submit import Outcome as Outcome
    from airflow_gym_provider.chain.submit import OutcomeKind as OutcomeKind
    from airflow_gym_provider.chain.submit import RunFiles as RunFiles
    from airflow_gym_provider.chain.submit import StagedFile as StagedFile
    from airflow_gym_provider.chain.submit import Submission as Submission
    from airflow_gym_provider.chain.submit import SubmitReport as SubmitReport
    from airflow_gym_provider.chain.submit import read_submit as read_submit
    from airflow_gym_provider.chain.submit import submit_script as submit_script

_HOMES = {
    "cancel": "CancelReport cancel_script read_cancel read_cancels",
    "counters": "counters_script",
    "decision": "Action Decision after_reading decide",
    "errors": "BusyError ChainError CutOffError ForeignDirectoryError SlurmNotFoundError",
    "history": "BY_HAND LOST_GRACE CancelMark ChainHistory",
    "identity": "ChainKey check_path job_name run_dir run_dir_name",
    "limits": "Limits",
    "look": "ChainLook Look look_script read_look",
    "place": "ChainPlace Seen Timing",
    "record": "Record RecordEntry RecordHead read_record",
    "submit": "Outcome OutcomeKind RunFiles StagedFile Submission SubmitReport read_submit submit_script",
}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}
__all__ = sorted(_HOME)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
