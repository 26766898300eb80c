"""Rollout files as gym writes them and as it does not, and the summary that a real bash makes of them."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from airflow_gym_provider.results import Summary, parse_summary, summary_body
from airflow_gym_provider.results.summary import TABLE_CAP
from airflow_gym_provider.slurm.remote import RemoteScript

PACKAGE = Path(__file__).parents[3] / "airflow_gym_provider" / "results"
AWKS = [name for name in ("mawk", "gawk", "original-awk") if shutil.which(name)] or ["awk"]


def rollout(task: Any = 0, repeat: Any = 0, reward: Any = 1.0, prompt: str = "Why?", **more: Any) -> dict[str, Any]:
    """One line of rollouts.jsonl."""
    return {
        "responses_create_params": {"input": [{"content": prompt, "role": "user"}], "temperature": 0.5},
        "response": {
            "output": [{"content": [{"text": 'the "reward": 99, {'}]}],
            "usage": {"input_tokens": 7, "output_tokens": 3, "output_tokens_details": {"reasoning_tokens": 1}},
        },
        "reward": reward,
        "failure_kind": None,
        "_ng_task_index": task,
        "_ng_rollout_index": repeat,
        "agent_ref": {"name": "solver"},
        "ng_perf": {"total_latency_ms": 250.0},
    } | more


def failure(task: int, repeat: int, kind: str = "agent_run_error") -> dict[str, Any]:
    """One line of rollouts_failures.jsonl."""
    row = {"_ng_failure_class": kind, "_ng_failure_message": 'said "reward": 1', "agent_ref": {"name": "solver"}}
    return row | {"_ng_task_index": task, "_ng_rollout_index": repeat}


def write(path: Path, rows: Iterable[dict[str, Any] | str]) -> Path:
    """A file of such lines; texts go in as they are, without a line end."""
    path.write_text("".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows))
    return path


def rows_of(reader: list[str], data: bytes, source: str = "rollouts") -> list[str]:
    """What one of the readers says of a file's content."""
    done = subprocess.run(reader, input=data, capture_output=True, check=True, env={**os.environ, "LC_ALL": "C"})
    assert done.stderr == b"", (reader, source)
    return done.stdout.decode("latin-1").splitlines()


def awk_reader(name: str, source: str = "rollouts") -> list[str]:
    """The command of the reader for login nodes without a Python."""
    return [name, "-v", f"source={source}", "-f", str(PACKAGE / "rollouts.awk")]


def python_reader(source: str = "rollouts") -> list[str]:
    """The command of the other one."""
    return ["python3", "-I", "-S", str(PACKAGE / "rollouts_reader.py"), source]


def path_without(folder: Path, *programs: str) -> str:
    """A PATH with everything that this machine has but these programs."""
    folder.mkdir()
    for place in reversed(os.environ["PATH"].split(":")):
        for tool in Path(place).iterdir() if Path(place).is_dir() else ():
            link = folder / tool.name
            link.unlink(missing_ok=True)
            if tool.name not in programs:
                link.symlink_to(tool)
    return str(folder)


def summarise(
    rollouts: Path,
    *,
    table_cap: int = TABLE_CAP,
    path: str | None = None,
    user: str | None = None,
    **environ: str,
) -> Summary:
    """The summary of a file, made by a bash as a login node would run it."""
    script = RemoteScript.build(summary_body(str(rollouts), tasks=True, table_cap=table_cap), needs=())
    environ["PATH"] = path or os.environ["PATH"]
    done = subprocess.run(["bash", "-s"], input=script.text, capture_output=True, text=True, env=environ, user=user)
    assert done.stderr == ""
    return parse_summary(script.frames(done.stdout), str(rollouts))


def reward_numbers(summary: Summary) -> list[float]:
    """Mean, deviation, extremes and quantiles of the rewards."""
    spread = summary.reward
    return [] if spread is None else [spread.mean, spread.std, spread.low, spread.high, *spread.quantiles]


def expected_numbers(rewards: list[float]) -> list[float]:
    """The same by Python's and NumPy's own functions."""
    import numpy

    deviation = statistics.stdev(rewards) if len(rewards) > 1 else 0.0
    levels = [float(level) for level in numpy.quantile(rewards, [0.05, 0.25, 0.5, 0.75, 0.95])]
    return [statistics.fmean(rewards), deviation, min(rewards), max(rewards), *levels]
