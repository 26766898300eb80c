"""Leaves a note of each call where a test asks for it: what was started where, with which arguments and environment."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path


def record(tool: str, argv: list[str]) -> None:
    """Write one JSON file per call into the folder named by STANDIN_RECORD_DIR; without that variable, do nothing.

    The environment is written as it is, secrets included: the variable is for tests.
    """
    folder = os.environ.get("STANDIN_RECORD_DIR")
    if not folder:
        return
    Path(folder).mkdir(parents=True, exist_ok=True)
    node, job = os.environ.get("SLURMD_NODENAME", ""), os.environ.get("SLURM_JOB_ID", "")
    note = {
        "tool": tool,
        "argv": argv,
        "env": dict(os.environ),
        "node": node,
        "job_id": job,
        "step_id": os.environ.get("SLURM_STEP_ID", ""),
        "cwd": str(Path.cwd()),
        "pid": os.getpid(),
        "started_at": time.time(),
    }
    path = Path(folder) / f"{tool}-{job or 'nojob'}-{node or 'nonode'}-{os.getpid()}.json"
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(note, indent=1), encoding="utf-8")
    partial.rename(path)
