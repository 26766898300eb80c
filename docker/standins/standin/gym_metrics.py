"""rollouts_aggregate_metrics.json and the two quality files: the real shapes, with the numbers of these rollouts."""

from __future__ import annotations

import statistics
from typing import Any

Row = dict


def aggregate(done: list[Row], expected: list[Row]) -> list[dict[str, Any]]:
    """A list with one entry per agent; empty without rollouts."""
    agents = sorted({row["agent_ref"]["name"] for row in done})
    return [_entry(agent, _of(agent, done), _of(agent, expected)) for agent in agents]


def _of(agent: str, rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["agent_ref"]["name"] == agent]


def _by(name: str, rows: list[Row]) -> dict[int, list[Row]]:
    groups: dict[int, list[Row]] = {}
    for row in rows:
        groups.setdefault(row[name], []).append(row)
    return dict(sorted(groups.items()))


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _entry(agent: str, done: list[Row], expected: list[Row]) -> dict[str, Any]:
    tasks, repeats = _by("_ng_task_index", done), _by("_ng_rollout_index", done)
    k = len(_by("_ng_rollout_index", expected))
    rewards = [row["reward"] for row in done]
    average = 100 * _mean([_mean([row["reward"] for row in rows]) for rows in tasks.values()])
    best = 100 * _mean([max(row["reward"] for row in rows) for rows in tasks.values()])
    tokens = [row["response"]["usage"]["total_tokens"] for row in done]
    key_metrics = {"mean/reward": _mean(rewards), f"pass@1[avg-of-{k}]/accuracy": average, f"pass@{k}/accuracy": best}
    return {
        "agent_ref": {"name": agent},
        "agent_metrics": {
            **key_metrics,
            "mean/total_tokens": _mean(tokens),
            "std/reward": statistics.stdev(rewards) if len(rewards) > 1 else 0.0,
            "per_sample_aggregate": {
                "accuracy": [100 * _mean([row["reward"] for row in rows]) for rows in repeats.values()]
            },
            "num_repeats": k,
        },
        "key_metrics": key_metrics,
        "group_level_metrics": [_group(task, rows, k) for task, rows in tasks.items()],
        "repeat_level_metrics": [
            {
                "_ng_rollout_index": repeat,
                "sample_count": len(rows),
                "missing_count": len(tasks) - len(rows),
                "mean/reward": _mean([row["reward"] for row in rows]),
            }
            for repeat, rows in repeats.items()
        ],
    }


def _group(task: int, rows: list[Row], k: int) -> dict[str, Any]:
    return {
        "_ng_task_index": task,
        "mean/reward": _mean([row["reward"] for row in rows]),
        "num_rollouts": len(rows),
        "expected_num_rollouts": k,
        "missing_num_rollouts": k - len(rows),
        "reward_profile_completion_pct": 100.0 * len(rows) / k,
        "rollout_infos": [
            {
                "rollout_id": f"{task}:{row['_ng_rollout_index']}",
                "_ng_task_index": task,
                "_ng_rollout_index": row["_ng_rollout_index"],
                "reward": row["reward"],
            }
            for row in rows
        ],
    }


def quality(done: list[Row]) -> tuple[dict[str, Any], list[Row]]:
    """The summary and one verdict per rollout: a stand-in's rollouts are all healthy."""
    tasks = {
        str(task): {"repeats": len(rows), "healthy": len(rows), "unhealthy": 0, "unobserved": 0, "flags": []}
        for task, rows in _by("_ng_task_index", done).items()
    }
    summary = {
        "run": {
            "ignored_checks": [],
            "artifacts": {"records": len(done), "captures": len(done), "coverage": {}},
            "verdicts": {"healthy": len(done), "unhealthy": 0, "unobserved": 0},
            "issues": {},
            "stats": {},
        },
        "tasks": tasks,
    }
    verdicts = [
        {
            "_ng_task_index": row["_ng_task_index"],
            "_ng_rollout_index": row["_ng_rollout_index"],
            "rollout_id": f"{row['_ng_task_index']}-{row['_ng_rollout_index']}",
            "verdict": "healthy",
            "findings": [],
            "unobserved": [],
        }
        for row in done
    ]
    return summary, verdicts
