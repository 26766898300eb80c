"""The mean reward of every task of one run, and two runs side by side, task by task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Comparison", "Pair", "Task", "TaskRewards", "compare_tasks", "read_task"]


@dataclass(frozen=True)
class Task:
    """One task of one run: `reward` is the mean over its `n` rollouts that have one, None when none has.

    `agent` and `index` are as the file spells them; `prompt` is a fingerprint of what was asked, "0" when unknown.
    """

    agent: str
    index: str
    n: int
    reward: float | None
    prompt: str


def read_task(row: Sequence[str]) -> Task:
    """A task from its line of the table (`t AGENT TASK N MEAN PROMPT`, see totals.awk). Raises ValueError."""
    _, agent, index, n, mean, prompt = row
    return Task(agent, index, int(n), None if mean == "-" else float(mean), prompt)


@dataclass(frozen=True)
class TaskRewards(Mapping[str, Task]):
    """All tasks of a run by name: the task's index, with the agent before it where there are several agents."""

    tasks: dict[str, Task]

    @classmethod
    def of(cls, tasks: Iterable[Task]) -> TaskRewards:
        """Of tasks in any order."""
        found = list(tasks)
        several = len({task.agent for task in found}) > 1
        return cls({f"{task.agent}/{task.index}" if several else task.index: task for task in found})

    def of_agent(self, agent: str) -> TaskRewards:
        """Those of one agent, by index alone."""
        return TaskRewards({task.index: task for task in self.tasks.values() if task.agent == agent})

    def __getitem__(self, name: str) -> Task:
        return self.tasks[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tasks)

    def __len__(self) -> int:
        return len(self.tasks)


@dataclass(frozen=True)
class Pair:
    """One task that both runs have. `difference` is candidate minus baseline: below 0 is worse."""

    task: str
    baseline: float
    candidate: float
    baseline_n: int
    candidate_n: int

    @property
    def difference(self) -> float:
        """Candidate minus baseline."""
        return self.candidate - self.baseline


@dataclass(frozen=True)
class Comparison:
    """Two runs over the same tasks, the largest drop first.

    `only_baseline` and `only_candidate` count tasks that the other run does not have, `changed` those whose question is
    another one, `without_reward` those without a reward on either side: none of them is among the pairs.
    """

    pairs: tuple[Pair, ...]
    only_baseline: int = 0
    only_candidate: int = 0
    changed: int = 0
    without_reward: int = 0

    @property
    def left_out(self) -> int:
        """Tasks of either run that are not compared."""
        return self.only_baseline + self.only_candidate + self.changed + self.without_reward

    @property
    def repeats(self) -> tuple[float, float]:
        """Mean number of rollouts per compared task, of baseline and candidate."""
        size = len(self.pairs) or 1
        return sum(pair.baseline_n for pair in self.pairs) / size, sum(pair.candidate_n for pair in self.pairs) / size

    def rows(self, limit: int = 500, offset: int = 0) -> list[dict[str, Any]]:
        """For a page: at most `limit` tasks from `offset` on, the largest drop first."""
        return [
            {
                "task": pair.task,
                "baseline": pair.baseline,
                "candidate": pair.candidate,
                "difference": pair.difference,
                "baseline_n": pair.baseline_n,
                "candidate_n": pair.candidate_n,
            }
            for pair in self.pairs[offset : offset + limit]
        ]

    def counts(self) -> dict[str, int]:
        """Worse, better and equal tasks, and those that are not compared."""
        return {
            "tasks": len(self.pairs),
            "worse": sum(pair.difference < 0 for pair in self.pairs),
            "better": sum(pair.difference > 0 for pair in self.pairs),
            "equal": sum(pair.difference == 0 for pair in self.pairs),
            "only_baseline": self.only_baseline,
            "only_candidate": self.only_candidate,
            "changed": self.changed,
            "without_reward": self.without_reward,
        }


def compare_tasks(baseline: TaskRewards, candidate: TaskRewards, *, same_prompts: bool = True) -> Comparison:
    """The tasks that both have, paired by name.

    `same_prompts`: a task whose prompt's fingerprint differs is another task; unknown fingerprints ("0") match all.
    """
    pairs, changed, without = [], 0, 0
    for name in baseline.keys() & candidate.keys():
        old, new = baseline[name], candidate[name]
        if same_prompts and old.prompt != new.prompt and "0" not in (old.prompt, new.prompt):
            changed += 1
        elif old.reward is None or new.reward is None:
            without += 1
        else:
            pairs.append(Pair(name, old.reward, new.reward, old.n, new.n))
    pairs.sort(key=lambda pair: (pair.difference, _natural(pair.task)))
    return Comparison(
        tuple(pairs),
        only_baseline=len(baseline.keys() - candidate.keys()),
        only_candidate=len(candidate.keys() - baseline.keys()),
        changed=changed,
        without_reward=without,
    )


def _natural(name: str) -> tuple[str, int, str]:
    """Task 10 after task 9."""
    agent, _, index = name.rpartition("/")
    return (agent, int(index), "") if index.isdecimal() and len(index) < 20 else (agent, -1, index)
