"""What a green task returns, and what a red one says: small, typed, with the paths to look at."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_gym_provider.exceptions import SlurmTransportError
from airflow_gym_provider.results import keep_rewards
from airflow_gym_provider.slurm.keys import number_of
from airflow_gym_provider.slurm.remote import RemoteScript
from airflow_gym_provider.slurm.tails import last_lines_body
from airflow_gym_provider.storable import storable

if TYPE_CHECKING:
    from airflow_gym_provider.chain import ChainLook
    from airflow_gym_provider.hooks.slurm import SlurmHook
    from airflow_gym_provider.operators._plan import ChainPlan
    from airflow_gym_provider.results import Summary, Verdict

RECORD = "gym-job.json"
MAX_XCOM_BYTES = 48 * 1024
MAX_ROLLOUTS_BYTES = 1000
"""What Airflow's database keeps of a benchmark's rollouts, however many they are."""
_TAIL_LINES = 40


def place_values(plan: ChainPlan, job_id: str) -> dict[str, Any]:
    """Where a chain lies and its present job: what is pushed before a deferral, for people, links and pages."""
    return {
        "benchmark": plan.benchmark,
        "cluster": plan.bounds.compute,
        "job_id": job_id,
        "run_dir": plan.run_dir,
        "job_dir": plan.job_dir,
        "job_name": plan.job_name,
        "record": posixpath.join(plan.run_dir, RECORD),
        "rollouts": plan.spec.rollouts_path,
        "logs": posixpath.join(plan.job_dir, "logs"),
        "hostname": plan.hostname,
        "generation": plan.chain_key.generation,
    }


def result_values(
    plan: ChainPlan, look: ChainLook, verdict: Verdict | None, base: int, summary: Summary
) -> dict[str, Any]:
    """The task's return value. Times are seconds; at most 48 KB: `metrics_left_out` metrics did not fit.

    `summary` is `Summary.values()`; with `task_rewards`, the mean reward of each task, it is less than 1 KB. Of tasks
    that do not fit there are none. The metrics are gym's, and those of a custom harness. `rollouts_done` is how many
    rollouts differ, None when they could not be read; `complete` is false for a partial result, green as it may be.
    """
    newest = look.jobs[-1]
    metrics = {**summary.metrics, **(look.survey.metrics if look.survey is not None else {})}
    values = place_values(plan, newest.ref.key) | {
        "state": newest.ending.value if newest.ending else newest.state,
        "job_ids": [job.ref.key for job in look.jobs],
        "job_states": [job.ending.value if job.ending else job.state for job in look.jobs],
        "elapsed_seconds": newest.elapsed,
        "chain_elapsed_seconds": sum(job.elapsed for job in look.jobs[base:]),
        "rollouts_done": verdict.done if verdict and verdict.looked else None,
        "rollouts_expected": verdict.expected if verdict else None,
        "complete": bool(verdict and verdict.whole),
        "failed_steps": list(newest.failed_steps)[:20],
        "summary": summary.values(),
    }
    if summary.rewards is not None:
        values["task_rewards"] = keep_rewards(summary.rewards, MAX_ROLLOUTS_BYTES - len(json.dumps(values["summary"])))
    kept = _fitting(metrics, MAX_XCOM_BYTES - len(json.dumps(values)))
    found: dict[str, Any] = storable(values | {"metrics": kept, "metrics_left_out": len(metrics) - len(kept)})
    return found


def _fitting(metrics: Mapping[str, float], room: int) -> dict[str, float]:
    """As many metrics, in their order, as fit into `room` bytes of JSON."""
    kept: dict[str, float] = {}
    for name, value in metrics.items():
        room -= len(json.dumps({name: value})) + 2
        if room < 0:
            break
        kept[name] = value
    return kept


def log_tails(hook: SlurmHook, plan: ChainPlan, job_id: str) -> Sequence[tuple[str, str]]:
    """(path, last lines) of the driver's and the job's own log of one job; empty when they cannot be read. They come
    without the secrets that the job was given, which need not be those that this process knows.
    """
    number = number_of(job_id)
    logs = [
        posixpath.join(plan.job_dir, "logs", f"driver-{number}.log"),
        posixpath.join(plan.job_dir, f"slurm-{number}.out"),
    ]
    script = RemoteScript.build(last_lines_body(logs, posixpath.join(plan.job_dir, "job.sh"), _TAIL_LINES), needs=())
    try:
        answer = hook.run(script, 30)
    except SlurmTransportError:
        return ()
    frames = script.frames(answer.stdout).named("last")
    return [(path, text) for path, _, text in (frame.text.partition("\n") for frame in frames)]
