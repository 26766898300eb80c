"""What summarising rollouts costs: seconds, and the most memory that any process of it takes.

    python tests/bench/bench_summary.py [MEGABYTES=200]

Two gigabytes (2048) are what is promised: under 100 MB in any process, under 1 KB for Airflow's database.
"""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from airflow_gym_provider.results import parse_summary, summary_body
from airflow_gym_provider.slurm.remote import RemoteScript

WORDS = ["therefore", '"quoted"', "x = 1\n", "\\frac{1}{2}", "{", "}", "the reward is", "é"]


def make(path: Path, megabytes: int) -> None:
    """Rollouts of 12 KB each, four for each task."""
    texts = [" ".join(random.choices(WORDS, k=1500)) for _ in range(20)]
    usage = {"input_tokens": 300, "output_tokens": 1500}
    with path.open("w") as file:
        written = at = 0
        while written < megabytes << 20:
            row = {
                "responses_create_params": {"input": [{"content": f"{at // 4} {texts[at // 4 % 20][:900]}"}]},
                "response": {"output": [{"text": texts[at % 20]}], "usage": usage},
                "reward": float(random.random() < 0.6),
                "_ng_task_index": at // 4,
                "_ng_rollout_index": at % 4,
                "agent_ref": {"name": "solver"},
            }
            written += file.write(json.dumps(row) + "\n")
            at += 1


def main() -> None:
    """One line of figures, then the summary."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rollouts.jsonl"
        make(path, int(sys.argv[1]) if sys.argv[1:] else 200)
        script = RemoteScript.build(summary_body(str(path), tasks=True), needs=())
        began = time.monotonic()
        done = subprocess.run(["bash", "-s"], input=script.text, capture_output=True, text=True, check=True)
        wall = time.monotonic() - began
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        found = parse_summary(script.frames(done.stdout), str(path))
        values = json.dumps(found.values())
        print(
            f"{path.stat().st_size >> 20} MB: {wall:.1f} s, {used.ru_utime + used.ru_stime:.1f} s of CPU; largest "
            f"process {used.ru_maxrss >> 10} MB; {len(values)} bytes for Airflow; {len(done.stdout) >> 10} KB of tasks"
        )
        print(values)


if __name__ == "__main__":
    main()
