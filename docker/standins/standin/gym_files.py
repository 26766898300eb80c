"""The files beside rollouts.jsonl, and what a resumed run makes of those it finds."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

Row = dict  # one line of JSON
GIVE_UP_AFTER = int(os.environ.get("NEMO_GYM_MAX_ROLLOUT_ATTEMPTS", "3"))


def key(row: Row) -> tuple[int, int]:
    """What identifies a rollout."""
    return row["_ng_task_index"], row["_ng_rollout_index"]


class RunFiles:
    """All files of one evaluation. Lines are appended and flushed one by one, so that an end at any instant leaves
    whole lines and at most one torn one, which the next run drops."""

    def __init__(self, output: str) -> None:
        """`output` is the path of rollouts.jsonl; its folder is made."""
        self.rollouts = Path(output)
        stem = self.rollouts.with_suffix("")
        self.materialized = Path(f"{stem}_materialized_inputs.jsonl")
        self.failures = Path(f"{stem}_failures.jsonl")
        self.aggregate = Path(f"{stem}_aggregate_metrics.json")
        self.quality = self.rollouts.parent / "quality_summary.json"
        self.verdicts = self.rollouts.parent / "rollout_verdicts.jsonl"
        self.lock = threading.Lock()
        self.rollouts.parent.mkdir(parents=True, exist_ok=True)

    def resume(self) -> bool:
        """Whether there is something to go on from. Says so, in words, when there is not."""
        if self.materialized.exists() and self.rollouts.exists():
            return True
        print("Skipping the cache: no materialized inputs and rollouts of an earlier run")
        return False

    def start_over(self, inputs: list[Row]) -> None:
        """Old results go; the list of expected rollouts is fixed from here on."""
        for path in (self.aggregate, self.quality, self.verdicts):
            path.unlink(missing_ok=True)
        self.rollouts.write_text("")
        self.failures.write_text("")
        self.materialized.write_text("".join(json.dumps(row) + "\n" for row in inputs))

    def append(self, path: Path, row: Row) -> None:
        """One line, whole, on disk as far as the operating system is concerned."""
        with self.lock, path.open("a") as file:
            file.write(json.dumps(row) + "\n")
            file.flush()

    def read(self, path: Path) -> list[Row]:
        """The whole lines. A torn last line is cut off the file, or the next one would be glued to it."""
        if not path.exists():
            return []
        content = path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) != len(content):
            print(f"Dropping a torn last line of {len(content) - len(whole)} bytes in {path.name}")
            path.write_bytes(whole)
        return [json.loads(line) for line in whole.splitlines() if line.strip()]

    def todo(self) -> list[Row]:
        """The expected rollouts that are neither done nor given up, each with its attempt's number."""
        done = {key(row) for row in self.read(self.rollouts)}
        failed: dict[tuple[int, int], int] = {}
        for row in self.read(self.failures):
            weight = GIVE_UP_AFTER if row.get("_ng_failure_terminal") else 1
            failed[key(row)] = failed.get(key(row), 0) + weight
        waiting = [row for row in self.read(self.materialized) if key(row) not in done]
        return [
            {**row, "_attempt": failed.get(key(row), 0)} for row in waiting if failed.get(key(row), 0) < GIVE_UP_AFTER
        ]
