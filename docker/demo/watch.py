"""Starts the demo's DAG, tells what happens, and ends with a table of what came out.

    watch.py DAG_ID [--resumes BENCHMARK] [--timeout SECONDS]

Exit 0 only if the run is green, every benchmark is complete with metrics, Slurm's accounting holds exactly the jobs
that the tasks name (and any of other run directories), no task was retried for an unforeseen reason, and the benchmark
named by --resumes hit its walltime and went on in another job.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from typing import Any
from urllib.parse import quote

from airflow_api import AirflowApi

COLUMNS = ("benchmark", "state", "tries", "Slurm jobs of its chain", "walltime", "rollouts", "metrics")


def clock(seconds: float) -> str:
    """1:04 for 64."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def follow(api: AirflowApi, dag_id: str, run_id: str, timeout: float) -> tuple[str, list[str]]:
    """Print each change of a task and of a Slurm job until the run ends. Its state, and why tasks were retried."""
    began = time.monotonic()
    seen: dict[Any, str] = {}
    called: dict[tuple[str, int], str] = {}
    reasons: list[str] = []
    while time.monotonic() - began < timeout:
        state = api.run_state(dag_id, run_id)
        tasks = {(task["task_id"], task["map_index"]): task for task in api.tasks(dag_id, run_id)}
        # Airflow forgets what an instance is called until its next try begins, and says its number then.
        called |= {
            key: task["rendered_map_index"]
            for key, task in tasks.items()
            if task["rendered_map_index"] not in (None, "", str(key[1]))
        }
        for key, task in tasks.items():
            task["rendered_map_index"] = called.get(key)
        news: dict[Any, str] = {key: task_news(task) for key, task in tasks.items()} | slurm_news()
        for key, value in news.items():
            if value and seen.get(key) != value:
                seen[key] = value
                what = f"task {name(tasks[key])}" if key in tasks else key
                if value.startswith("up_for_retry"):
                    reasons.append(f"{what}: {api.retry_reason(tasks[key])}")
                    value = f"{value}, {reasons[-1].partition(': ')[2]}"
                print(f"  {clock(time.monotonic() - began):>5}  {what}: {value}", flush=True)
        if state in ("success", "failed"):
            return state, reasons
        time.sleep(2)
    return f"not finished after {timeout:.0f} s", reasons


def name(task: dict[str, Any]) -> str:
    """The task's id; with what tells it from its likes if it is mapped: its benchmark, or its number before it runs."""
    if task["map_index"] < 0:
        return str(task["task_id"])
    return f"{task['task_id']}[{task['rendered_map_index'] or task['map_index']}]"


def benchmark_of(task: dict[str, Any]) -> str:
    """The benchmark of a task of `gym_evals`, and of one that is called after its own."""
    return str(task["task_id"] if task["map_index"] < 0 else task["rendered_map_index"] or name(task))


def task_news(task: dict[str, Any]) -> str:
    """What a person wants to know of a task's state."""
    state = task["state"]
    if state in (None, "scheduled", "queued"):
        return ""
    words = "deferred, its Slurm job is watched" if state == "deferred" else str(state)
    return f"{words} (try {task['try_number']})" if task["try_number"] > 1 else words


def accounting() -> list[list[str]]:
    """[id, name, state, directory] of every job of this cluster, oldest first. Its queue is ahead of its accounting."""
    asked = ["sacct", "-nPXa", "-S", "now-1days", "-o", "JobIDRaw,JobName%200,State,WorkDir%500"]
    rows = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.splitlines()
    return [row.split("|") for row in rows]


def slurm_news() -> dict[str, str]:
    """State of each Slurm job."""
    return {f"job {job} ({job_name})": state for job, job_name, state, _ in accounting()}


def row(task: dict[str, Any], result: dict[str, Any] | None) -> tuple[str, ...]:
    """One line of the table."""
    if not result:
        return (benchmark_of(task), str(task["state"]), str(task["try_number"]), "", "", "", "")
    jobs = ", ".join(f"{job} {state}" for job, state in zip(result["job_ids"], result["job_states"], strict=True))
    wanted = sorted(result["metrics"].items(), key=lambda item: (item[0] != "mean/reward", item[0]))[:3]
    return (
        result["benchmark"],
        str(task["state"]),
        str(task["try_number"]),
        jobs,
        clock(result["chain_elapsed_seconds"]),
        f"{result['rollouts_done']}/{result['rollouts_expected']}",
        "  ".join(f"{metric}={value:g}" for metric, value in wanted),
    )


def table(rows: list[tuple[str, ...]]) -> str:
    """Columns as wide as they must be."""
    lines = [COLUMNS, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(COLUMNS))]
    texts = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    return "\n".join([texts[0], "-" * max(map(len, texts)), *texts[1:]])


def complaints(results: dict[str, dict[str, Any] | None], resumes: str | None) -> list[str]:
    """What is not as it should be. A DAG of somebody's own may have run on this cluster too, in other directories."""
    found = []
    for benchmark, result in results.items():
        if not result or not result["complete"] or not result["metrics"]:
            found.append(f"{benchmark} has no complete result")
    if resumes:
        states = (results.get(resumes) or {}).get("job_states", [])
        if len(states) < 2 or states[0] != "TIMEOUT" or states[-1] != "COMPLETED":
            found.append(f"{resumes} was to hit its walltime and go on in another job; its jobs ended {states}")
    named = sorted(job for result in results.values() if result for job in result["job_ids"])
    folders = tuple(f"{result['run_dir']}/" for result in results.values() if result)
    known = sorted(job for job, _, _, folder in accounting() if f"{folder}/".startswith(folders))
    if named != known:
        found.append(f"the tasks name the Slurm jobs {named}, Slurm knows {known}")
    return found


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser()
    parser.add_argument("dag_id")
    parser.add_argument("--resumes")
    parser.add_argument("--timeout", type=float, default=1200)
    options = parser.parse_args()
    api = AirflowApi.from_environ()
    api.wait_for_dag(options.dag_id, 120)
    run_id = api.trigger(options.dag_id)
    print(f"DAG {options.dag_id} runs: {api.url}/dags/{options.dag_id}/runs/{quote(run_id)}", flush=True)
    state, reasons = follow(api, options.dag_id, run_id, options.timeout)
    tasks = [task for task in api.tasks(options.dag_id, run_id) if task["operator_name"] == "GymEvalOperator"]
    tasks.sort(key=lambda task: task["map_index"])
    results = {benchmark_of(task): api.result(task) for task in tasks}
    print("\n" + table([row(task, results[benchmark_of(task)]) for task in tasks]) + "\n", flush=True)
    problems = [] if state == "success" else [f"the run is {state}"]
    problems += complaints(results, options.resumes)
    problems += [f"retried for no good reason: {reason}" for reason in reasons if ": unexpected " in reason]
    for problem in problems:
        print(f"not as it should be: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
