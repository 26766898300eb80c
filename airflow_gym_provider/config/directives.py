"""Extra ``#SBATCH`` directives: free, except for what the job script decides itself."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator

from airflow_gym_provider.config.fields import as_line, as_text, kind_of, refuse

# Each directive that the job script writes itself, and the field that decides it.
MANAGED_DIRECTIVES = {
    "job-name": "it is always gym-<benchmark>",
    "account": "set compute.<name>.account",
    "time": "set compute.<name>.walltime",
    "chdir": "it is always the benchmark's directory",
    "partition": "set partition of the node pools",
    "nodes": "set nodes of the node pools",
    "ntasks-per-node": "set ntasks_per_node of the node pools",
    "gpus-per-node": "set gpus_per_node of the node pools",
    "tasks-per-node": "set ntasks_per_node of the node pools",
}
# These would make one submission no job, several jobs, or a job that no longer runs the script.
_REFUSED = {
    "array": "a benchmark is one job; declare one benchmark for each part instead",
    "wrap": "the job runs the rendered script",
    "test-only": "nothing would be submitted; render the script to look at it",
    "wait": "the state of the job is watched from outside",
    "parsable": "it is always given",
    "help": "nothing would be submitted",
    "usage": "nothing would be submitted",
    "version": "nothing would be submitted",
}
# Real options that happen to begin like a managed one.
_NO_ABBREVIATION = frozenset({"gpus", "ntasks"})
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-_][A-Za-z0-9]+)*\Z")


def read_directive_name(value: Any) -> str:
    """Check the name of a directive: a long option of sbatch without its dashes. Refuses one that is managed elsewhere,
    in any abbreviation that sbatch would take for it.
    """
    name = as_line(value)
    if not _NAME.match(name):
        raise refuse(
            f"{name!r} is not the name of a directive; write the long option without leading dashes, as in qos"
        )
    if owner := _managed(name):
        raise refuse(f"{name!r} cannot be set here: {owner}")
    return name


def read_directive_value(value: Any) -> str:
    """Check a directive's value: text of one line; the empty text makes a bare flag. Refuses null and
    booleans.
    """
    if value is None or isinstance(value, bool):
        raise refuse(f"must be text, not {kind_of(value)}; write '' for a bare flag, or put the word in quotes")
    text = as_text(value)
    return as_line(text) if text else text


def _managed(name: str) -> str | None:
    """Return why a name is refused; sbatch also accepts any unambiguous abbreviation, so these are caught too."""
    spelled = name.replace("_", "-").lower()
    if len(spelled) == 1:
        return "single-letter options are not written in scripts; use the long name"
    for managed, owner in {**MANAGED_DIRECTIVES, **_REFUSED}.items():
        if spelled == managed:
            return owner
        if managed.startswith(spelled) and spelled not in _NO_ABBREVIATION:
            return f"sbatch may read it as {managed}; {owner}"
    return None


Directives = dict[
    Annotated[str, BeforeValidator(read_directive_name)],
    Annotated[str, BeforeValidator(read_directive_value)],
]
