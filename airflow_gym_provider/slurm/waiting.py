"""Why a job waits, where waiting alone will not start it: squeue's reasons that somebody has to do something about.

Names of Slurm 22.05 to 25.05 (man squeue, JOB REASON CODES). Any other reason passes by itself, or nobody can tell.
"""

from __future__ import annotations

import re

from airflow_gym_provider.slurm.states import State

__all__ = ["cure_of"]

_RELEASE = "somebody must release it (scontrol release)"
_CANCEL = "it will not start as it is; clear the task with a config that asks for"
_HELD_STATES = (State.REQUEUE_HOLD, State.SPECIAL_EXIT, State.RESV_DEL_HOLD)
_CURES = (
    (r"held|hold", _RELEASE),
    (r"DependencyNeverSatisfied", "what it depends on has ended otherwise; clear the task, without dependencies"),
    (r"InvalidAccount", f"{_CANCEL} another account"),
    (r"InvalidQOS", f"{_CANCEL} another QOS"),
    (r"BadConstraints", f"{_CANCEL} features and memory that the partition's nodes have"),
    (r"PartitionTimeLimit", f"{_CANCEL} less walltime, or another partition"),
    (r"PartitionNodeLimit", f"{_CANCEL} fewer nodes, or another partition, unless nodes are just away"),
    (r"(?:QOS|Assoc)\w*Max(?:Wall|Time)", f"{_CANCEL} less walltime, or another QOS"),
    (r"(?:QOS|Assoc)\w*Max\w*Per(?:Job|Node)", f"{_CANCEL} less at once, or another QOS"),
    (r"(?:QOS|Assoc)Grp\w*(?:Minutes|Mins)", "the budget of its account or QOS is used up"),
)


def cure_of(state: str, reason: str) -> str:
    """What somebody has to do before a job that waits in `state` for `reason` starts; "" when it is only its turn."""
    if state in _HELD_STATES:
        return _RELEASE
    return next((cure for pattern, cure in _CURES if re.search(pattern, reason, re.IGNORECASE)), "")
