"""Two runs task by task, from what each left of its tasks' rewards. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_gym_provider.results.kept import kept_rewards, kept_step
from airflow_gym_provider.results.summary import table_path
from airflow_gym_provider.results.tasks import Pair, compare_tasks

SHOWN = 200


@dataclass(frozen=True)
class Pairs:
    """The tasks of two runs, those that moved most first; `problem` says why there are none to show.

    `same` tasks did not move, or by less than the rounding of what is kept; `only` are in one run only. `note` is what
    to know when reading them.
    """

    problem: str = ""
    worse: Sequence[Pair] = ()
    better: Sequence[Pair] = ()
    same: int = 0
    only: int = 0
    note: str = ""
    shown: int = SHOWN

    @property
    def count(self) -> int:
        """Tasks that are compared."""
        return len(self.worse) + len(self.better) + self.same


def read_pairs(before: object, after: object) -> Pairs:
    """From the return values of two evaluations."""
    found, room = [], 0.0
    for name, value in (("first", before), ("second", after)):
        result: Mapping[str, Any] = value if isinstance(value, Mapping) else {}
        kept = kept_rewards(result.get("task_rewards"))
        if kept is None:
            return Pairs(f"Of the {name} run no rewards by task are kept in Airflow{_where(result)}")
        found.append(kept)
        room += kept_step(result.get("task_rewards"))
    (old, old_prompts), (new, new_prompts) = found
    compared = compare_tasks(old, new)
    moved = [pair for pair in compared.pairs if pair.difference and abs(pair.difference) >= room]
    notes = []
    if old_prompts and new_prompts and old_prompts != new_prompts:
        notes.append("The questions of the two runs are not all the same.")
    if room:
        notes.append(f"Rewards are rounded: differences below {room:.2g} count as before.")
    return Pairs(
        worse=[pair for pair in moved if pair.difference < 0],
        better=[pair for pair in reversed(moved) if pair.difference > 0],
        same=len(compared.pairs) - len(moved),
        only=compared.left_out,
        note=" ".join(notes),
    )


def _where(result: Mapping[str, Any]) -> str:
    """Where they are instead."""
    path = result.get("rollouts")
    if not isinstance(path, str) or not path:
        return ""
    return f". Rewards of very many tasks are not; they lie on the cluster in {table_path(path)}"
