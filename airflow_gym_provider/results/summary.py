"""What a finished benchmark's rollouts come to, counted where they lie: a few numbers, and one mean reward per task.

Rollouts can be gigabytes. They are read once on the login node, line by line; what is left is a file beside them,
`<rollouts>_task_rewards.tsv`, with one short line per task, and the numbers in it that are no task's go into the
answer. The file is used again as long as rollouts and failures have not changed.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from airflow_gym_provider.jobscript.quoting import quote
from airflow_gym_provider.results.harness import HarnessError, harness_results
from airflow_gym_provider.results.survey import CLOCKS_DIFFER
from airflow_gym_provider.results.tasks import TaskRewards, read_task
from airflow_gym_provider.slurm.progress import beside
from airflow_gym_provider.slurm.remote import Frame, Frames

__all__ = ["Spread", "Summary", "parse_summary", "summary_body", "table_path"]

TABLE_CAP = 8 * 1024 * 1024
"""Bytes of per-task rewards that are fetched at most: some 100,000 tasks."""
RESULTS_CAP = 1024 * 1024
"""Bytes of a custom harness's results.json that are fetched at most."""
LARGE = 64 * 1024 * 1024
"""Bytes of rollouts from which on they are summarised one file at a time on a login node."""
QUANTILES = ("0.05", "0.25", "0.5", "0.75", "0.95")
BINS = 10
_CLASSES_SHOWN = 4
_CLASS_NAME = 24


@dataclass(frozen=True)
class Spread:
    """How numbers are spread; `quantiles` at 0.05, 0.25, 0.5, 0.75 and 0.95, interpolated as NumPy does by default."""

    n: int
    mean: float
    std: float
    low: float
    high: float
    quantiles: tuple[float, ...]

    def values(self) -> dict[str, Any]:
        """For XCom: numbers of five digits."""
        spread = {"n": self.n, "mean": self.mean, "std": self.std, "min": self.low, "max": self.high}
        return {name: _short(value) for name, value in spread.items()} | {
            "quantiles": [_short(value) for value in self.quantiles]
        }


@dataclass(frozen=True)
class Summary:
    """The rollouts of one benchmark. `problem` says why there is none; counts are then 0 and spreads None.

    `missing`: the problem is that there is no such file, and looking again will not help.

    A rollout that is there twice counts once (`duplicates`); `unreadable` lines are no JSON objects; `without_reward`
    rollouts have none or one that is no finite number. `bins`: rewards in [0, 0.1), … [0.9, 1]; `below` and `above` are
    beyond. `tokens` are sums over the rollouts that tell them. `unresolved` rollouts failed and were never made good;
    `classes` counts failed attempts, and rollouts that gym marked as failed, by class. `rewards` is None unless
    asked for, and when there are too many to fetch; `metrics` are those of a custom harness's results.json.
    """

    rollouts: int = 0
    tasks: int = 0
    duplicates: int = 0
    unreadable: int = 0
    without_reward: int = 0
    reward: Spread | None = None
    bins: tuple[int, ...] = ()
    below: int = 0
    above: int = 0
    milliseconds: Spread | None = None
    tokens: Mapping[str, int] = field(default_factory=dict)
    attempts_failed: int = 0
    unresolved: int = 0
    classes: Mapping[str, int] = field(default_factory=dict)
    rewards: TaskRewards | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    problem: str = ""
    metrics_problem: str = ""
    missing: bool = False

    def values(self) -> dict[str, Any]:
        """For XCom and asset events: less than 1 KB of JSON, whatever the rollouts are. Durations in seconds.

        What is not known is not there. The four most frequent classes of failures have names, of 24 characters at most.
        """
        if self.problem:
            return {"problem": self.problem[:300]}
        counts = {
            name: getattr(self, name)
            for name in ("rollouts", "tasks", "duplicates", "unreadable", "without_reward", "unresolved")
        }
        values: dict[str, Any] = {
            name: count for name, count in counts.items() if count or name in ("rollouts", "tasks")
        }
        if self.reward is not None:
            values["reward"] = self.reward.values()
            values["reward_bins"] = list(self.bins)
            values |= {f"reward_{name}": n for name, n in (("below_0", self.below), ("above_1", self.above)) if n}
        if self.tokens:
            values["tokens"] = dict(self.tokens)
        if self.milliseconds is not None:
            values["seconds"] = _seconds(self.milliseconds).values()
        if self.attempts_failed or self.classes:
            values["failures"] = {"attempts": self.attempts_failed, "classes": _most(self.classes)}
        return values


def table_path(rollouts_path: str) -> str:
    """Where the mean reward per task lies, beside the rollouts."""
    return beside(rollouts_path, "_task_rewards.tsv")


def summary_body(
    rollouts_path: str,
    tag: str = "0",
    *,
    tasks: bool = False,
    table_cap: int = TABLE_CAP,
    results_path: str | None = None,
) -> str:
    """Bash that summarises one benchmark, for a RemoteScript that needs no programs of Slurm's.

    `tag` tells its frames from others'; `tasks` asks for the rewards of each task as well, if they are no more than
    `table_cap` bytes; `results_path` names a custom harness's results.json, to be read too. Takes about a minute for
    2 GB where there is a Python 3, three with awk alone. Raises ValueError for a tag or path that cannot be passed on.
    """
    if not re.fullmatch(r"[\w.+-]+", tag):
        raise ValueError(f"tag {tag!r} is not one plain word")
    paths = (rollouts_path, beside(rollouts_path, "_failures.jsonl"), table_path(rollouts_path))
    what = "table" if tasks else "summary"
    body = f"{_functions()}\ngym_summary {tag} {' '.join(map(quote, paths))} {what} {table_cap:d}\n"
    if results_path is not None:
        body += f"gym_results {tag} {quote(results_path)} {RESULTS_CAP}\n"
    return body


def parse_summary(
    frames: Frames,
    rollouts_path: str,
    tag: str = "0",
    *,
    results_path: str | None = None,
    since: float | None = None,
) -> Summary:
    """What the answer to `summary_body` of the same arguments says. Never raises: see `Summary.problem`.

    `since`: when the chain's first job was submitted, in seconds since 1970: an older results.json is not its own.
    """
    metrics, metrics_problem = _harness(frames, tag, results_path, since)
    summary = _rollouts(frames, rollouts_path, tag)
    return replace(summary, metrics=metrics, metrics_problem=metrics_problem)


def _rollouts(frames: Frames, rollouts_path: str, tag: str) -> Summary:
    told = [frame for frame in frames.named("summary") if frame.arg(0) == tag]
    status = told[0].arg(1) if told else "unknown"
    if status in ("missing", "failed", "unknown"):
        return Summary(problem=f"{rollouts_path} {_WHY[status]}", missing=status == "missing")
    lines = told[0].text.split("\n")
    if "end" not in lines:
        return Summary(problem=f"the summary of {rollouts_path} was cut off")
    rows = [line.split("\t") for line in lines]
    try:
        numbers = {row[1]: float(row[2]) for row in rows if row[0] == "s" and len(row) == 3}
        classes = {row[1]: int(row[2]) for row in rows if row[0] == "c" and len(row) == 3}
        rewards = None
        if status == "ok" and any(row[0] == "t" for row in rows):
            rewards = TaskRewards.of(read_task(row) for row in rows if row[0] == "t" and len(row) == 6)
        return _summary(numbers, classes, rewards)
    except (ValueError, OverflowError):
        return Summary(problem=f"{table_path(rollouts_path)} holds something else than numbers: remove it")


_WHY = {
    "missing": "does not exist",
    "failed": "could not be summarised: is there room for temporary files on the login node?",
    "unknown": "was not answered for",
}


def _summary(numbers: Mapping[str, float], classes: Mapping[str, int], rewards: TaskRewards | None) -> Summary:
    def count(name: str) -> int:
        return int(numbers.get(name, 0))

    return Summary(
        rollouts=count("rollouts"),
        tasks=count("tasks"),
        duplicates=count("duplicates"),
        unreadable=count("unreadable_rollouts"),
        without_reward=count("without_reward"),
        reward=_spread(numbers, "reward", count("with_reward")),
        bins=tuple(count(f"bin_{at}") for at in range(BINS)),
        below=count("bin_below"),
        above=count("bin_above"),
        milliseconds=_spread(numbers, "milliseconds", count("with_milliseconds")),
        tokens={name: count(f"tokens_{name}") for name in ("input", "output", "reasoning") if count(f"with_{name}")},
        attempts_failed=count("attempts_failed"),
        unresolved=count("unresolved"),
        classes=classes,
        rewards=rewards,
    )


def _spread(numbers: Mapping[str, float], name: str, n: int) -> Spread | None:
    parts = [numbers.get(f"{name}_{part}") for part in ("mean", "std", "min", "max", *(f"q{q}" for q in QUANTILES))]
    known = [part for part in parts if part is not None]
    if not n or len(known) < len(parts):
        return None
    return Spread(n, known[0], known[1], known[2], known[3], tuple(known[4:]))


def _harness(frames: Frames, tag: str, path: str | None, since: float | None) -> tuple[dict[str, float], str]:
    """Metrics of results.json, and why there are none or not all."""
    told = [frame for frame in frames.named("results") if frame.arg(0) == tag]
    if path is None or not told or told[0].arg(1) == "missing":
        return {}, ""
    if fault := _unfit(told[0], since):
        return {}, f"{path} {fault}"
    try:
        data = base64.b64decode("".join(told[0].text.split()), validate=True)
    except (binascii.Error, ValueError):
        return {}, f"{path} could not be read"
    if len(data) != int(told[0].arg(2, "-1")):
        return {}, f"{path} could not be read to its end"
    try:
        metrics, notes = harness_results(data)
    except HarnessError as error:
        return {}, f"{path} {error}"
    return metrics, f"{path}: {' '.join(notes).rstrip(',')}" if notes else ""


def _unfit(told: Frame, since: float | None) -> str:
    """Why a results.json is not read, to be said after its path; "" when it is."""
    if told.arg(1) != "ok":
        return f"is no file of at most {RESULTS_CAP} bytes"
    written = told.arg(3)
    if since is not None and written.isdecimal() and int(written) < since - CLOCKS_DIFFER:
        return "is from before this chain's first job, left by another run"
    return ""


def _seconds(spread: Spread) -> Spread:
    mean, std, low, high, *quantiles = (
        part / 1000 for part in (spread.mean, spread.std, spread.low, spread.high, *spread.quantiles)
    )
    return Spread(spread.n, mean, std, low, high, tuple(quantiles))


def _most(classes: Mapping[str, int]) -> dict[str, int]:
    ordered = sorted(classes.items(), key=lambda item: (-item[1], item[0]))
    most: dict[str, int] = {}
    for name, attempts in ordered[:_CLASSES_SHOWN]:
        most[name[:_CLASS_NAME]] = most.get(name[:_CLASS_NAME], 0) + attempts
    rest = sum(attempts for _, attempts in ordered[_CLASSES_SHOWN:])
    return most | ({"others": rest} if rest else {})


def _short(value: float) -> float:
    return value if isinstance(value, int) else float(f"{value:.5g}")


@cache
def _functions() -> str:
    folder = Path(__file__).parent
    programs = {
        name: (folder / file).read_text(encoding="utf-8")
        for name, file in (
            ("reader_py", "rollouts_reader.py"),
            ("reader_awk", "rollouts.awk"),
            ("totals_awk", "totals.awk"),
            ("distribution_awk", "distribution.awk"),
        )
    }
    lines = [f"_gym_large={LARGE}", *(f"_gym_{name}={quote(text)}" for name, text in programs.items())]
    return "\n".join([*lines, (folder / "summary.sh").read_text(encoding="utf-8")])
