"""The XComs that tasks of this provider leave, by name: what pages, links, notifiers and a DAG of yours read.

A task's own result is Airflow's `return_value`. Names are kept: XComs outlive a release.
"""

from __future__ import annotations

RESULT = "return_value"
"""How an evaluation ended: ids and states of its jobs, rollouts, metrics, where its files are."""
JOB = "gym_job"
"""Pushed before a task waits, and by every try: the job's id, its name, where everything will be."""
CHAIN = "gym_chain"
"""The timeline of a chain, as far as it has come: a row for each job."""
LIVE = "gym_live"
"""What the trigger saw last of a job that waits or runs; for pages."""
FAILURE = "gym_failure"
"""Why a task is red, in a sentence."""
VERDICT = "gym_verdict"
"""A gate's outcome, sentence and numbers of each benchmark and metric."""
GATE_INDEX = "gym_gate"
"""A gate's list of what each earlier run of it found, by which the next one looks for its baseline."""
