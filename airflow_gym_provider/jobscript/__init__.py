"""A submit config becomes the files of one benchmark's directory: ``job.sh`` and what describes its results. Pure.

`render_job_script` is the way in; `effective_run` and `results_spec` say what the job will do and how to judge it;
`quote` is the one way in which any text becomes a word of a shell line.
"""

from __future__ import annotations

from airflow_gym_provider.jobscript.quoting import quote
from airflow_gym_provider.jobscript.run import ResultsSpec, effective_run, results_spec
from airflow_gym_provider.jobscript.script import render_job_script

__all__ = ["ResultsSpec", "effective_run", "quote", "render_job_script", "results_spec"]
