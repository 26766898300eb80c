"""A submit config becomes the files of one benchmark's directory: ``job.sh`` and what describes its results. Pure.

`render_job_script` is the way in; `effective_run` and `results_spec` say what the job will do and how to judge it;
`quote` is the one way in which any text becomes a word of a shell line. Names are loaded when they are used: all rooms
quote, and few of them render.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_gym_provider.jobscript.quoting import quote as quote
    from airflow_gym_provider.jobscript.run import ResultsSpec as ResultsSpec
    from airflow_gym_provider.jobscript.run import effective_run as effective_run
    from airflow_gym_provider.jobscript.run import results_spec as results_spec
    from airflow_gym_provider.jobscript.script import render_job_script as render_job_script

_HOME = {
    "ResultsSpec": "run",
    "effective_run": "run",
    "quote": "quoting",
    "render_job_script": "script",
    "results_spec": "run",
}

__all__ = ["ResultsSpec", "effective_run", "quote", "render_job_script", "results_spec"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
