"""`gym_evals`: a submit config as a task group, with one mapped task for each of its benchmarks.

This module is imported by DAG files, so it imports next to nothing; see `operators.gym`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import TaskGroup

from airflow_gym_provider.operators.gym import GymEvalOperator
from airflow_gym_provider.task_groups._summary import GymSummaryOperator
from airflow_gym_provider.task_groups._validate import GymValidateOperator

if TYPE_CHECKING:
    from airflow.sdk import XComArg
    from airflow.sdk.definitions.mappedoperator import MappedOperator


class GymEvals(TaskGroup):
    """What `gym_evals` returns: a task group, so `>>` and `group["summary"]` work, with its tasks by name."""

    validate: GymValidateOperator
    evals: MappedOperator
    summary: GymSummaryOperator

    @property
    def output(self) -> XComArg:
        """The summary's return value: benchmark to `state`, `rollouts_done`, `metrics`, `reason` and so on.

        It is there when the summary is red as well, for tasks with the trigger rule `all_done`.
        """
        return self.summary.output


def gym_evals(
    config: Any,
    *,
    group_id: str = "gym_evals",
    benchmarks: Any = None,
    overrides: Any = (),
    environ: Mapping[str, str] | None = None,
    ssh_conn_id: str | None = None,
    pool: str | None = None,
    poll_interval: float | None = None,
    deferrable: bool | None = None,
    default_args: Mapping[str, Any] | None = None,
    **task_arguments: Any,
) -> GymEvals:
    """Evaluate a whole submit config: `validate`, then one mapped `eval` per benchmark, then `summary`.

    `validate` finds every mistake before anything touches the cluster. The benchmarks share one run directory and one
    record; each is retried, cleared and marked by itself, and a red one keeps none of the others. `summary` returns all
    of them and is red when one is not green. Called again with the same `group_id` it appends `__1`, `__2` and so on.

    :param config: as of `GymEvalOperator`, or the output of a task that returns such a thing.
    :param group_id: the group's name in the DAG.
    :param benchmarks: names or patterns of a shell ("gpqa", "mmlu*", "!slow_*"; a list, or a text with commas, may be a
        template or a task's output); all of the config unless given. One that matches nothing is an error.
    :param overrides: as of `GymEvalOperator`, or the output of a task that returns such a list.
    :param environ: as of `GymEvalOperator`; templates only, for Airflow stores what a mapped task is given.
    :param ssh_conn_id: SSH connection of the login node; None when Slurm's commands are on the worker (templated).
    :param pool: of the evaluating tasks. One with "include deferred" bounds how many jobs there are on a cluster.
    :param poll_interval: as of `GymEvalOperator`.
    :param deferrable: as of `GymEvalOperator`.
    :param default_args: as of every task group: for what all three tasks need, such as a `trigger_rule` behind a
        branch, or a `queue`.
    :param task_arguments: any other argument of `GymEvalOperator`, such as `execution_timeout` or `retry_delay`, for
        the evaluating tasks alone.

    Raises ValueError inside a mapped task group, in which Airflow does not map tasks. Nor does it take the group into a
    DAG with `fail_fast`: the summary runs whatever became of the others.
    """
    group = GymEvals(group_id=group_id, add_suffix_on_collision=True, default_args=dict(default_args or {}))
    _refuse_mapped(group)
    shared = {"config": config, "overrides": overrides} | _given(environ=environ, ssh_conn_id=ssh_conn_id)
    mine = _given(pool=pool, poll_interval=poll_interval, deferrable=deferrable)
    defaults = {"run_group": group.group_id, "map_index_template": "{{ task.benchmark }}"}
    with group:
        group.validate = GymValidateOperator(task_id="validate", benchmarks=benchmarks, **shared)
        partial = GymEvalOperator.partial(task_id="eval", **(defaults | shared | mine | task_arguments))
        group.evals = partial.expand(benchmark=group.validate.output)
        group.summary = GymSummaryOperator(
            task_id="summary", validate_task_id=group.validate.task_id, eval_task_id=group.evals.task_id
        )
        group.evals >> group.summary
        group.validate >> group.summary
    return group


def _given(**arguments: Any) -> dict[str, Any]:
    """Without those that were left out: a DAG's default_args may have them."""
    return {name: value for name, value in arguments.items() if value is not None}


def _refuse_mapped(group: TaskGroup) -> None:
    if next(group.iter_mapped_task_groups(), None) is not None:
        raise ValueError(
            f"{group.group_id}: Airflow does not map tasks inside a mapped task group. For several checkpoints call "
            f"gym_evals in a loop, each time with a group_id of its own, or start one run of the DAG per checkpoint"
        )
