"""A form for starting an evaluation by hand, and how what is filled in changes the config.

    with DAG("evaluate", params=gym_params(benchmarks=["gpqa", "aime25"])):
        gym_evals("submit.yaml", benchmarks=benchmarks_from_params(), overrides=overrides_from_params())

What is left empty changes nothing. Airflow refuses a bad value before there is a run, from the UI, the API and the
command line alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.sdk import Param

# "90" and "4:00" are minutes for Slurm, which is not what people mean by them in a form.
_WALLTIME = r"^$|^[0-9]{1,3}:[0-5][0-9]:[0-5][0-9]$|^[0-9]{1,3}-[0-9]{1,2}(:[0-5][0-9]){0,2}$"
_PLACE = r"^$|^(/|[a-z][a-z0-9+.-]*://)[^\n]+$"
_LINE = r"^[^\n]*$"
_PATTERN = r"^!?[A-Za-z0-9._*?\[\]-]+$"

CHECKPOINT = (
    "{% set checkpoint = namespace(path=params.get('checkpoint') or '') %}"
    "{% if not checkpoint.path %}{% for events in triggering_asset_events.values() %}"
    "{% for event in events | sort(attribute='timestamp') %}"
    "{% set checkpoint.path = event.extra.get('checkpoint') or checkpoint.path %}"
    "{% endfor %}{% endfor %}{% endif %}"
)
"""Jinja that leaves in `checkpoint.path` the param `checkpoint`, else the `checkpoint` in the extra of the newest asset
event that started the run, else nothing: `overrides=[CHECKPOINT + "@policy.model={{ checkpoint.path }}"]`."""


def gym_params(
    *,
    benchmarks: Sequence[str] = (),
    model: str | None = None,
    checkpoint: str | None = None,
    walltime: str | None = None,
    limit: int | None = None,
) -> dict[str, Param]:
    """Params for a DAG that evaluates: `model`, `checkpoint`, `benchmarks`, `walltime`, `limit`.

    `benchmarks` are the names to choose from; without them the form takes names and patterns as of `gym_evals`. The
    other arguments are the values that are filled in at first; they count for scheduled runs as well.
    """
    from airflow.sdk import Param

    return {
        "model": Param(
            model,
            type=["null", "string"],
            pattern=_LINE,
            title="Model",
            description="Name or path of what the policy serves. With a checkpoint: the name it is served as.",
        ),
        "checkpoint": Param(
            checkpoint,
            type=["null", "string"],
            pattern=_PLACE,
            title="Checkpoint",
            description="Path on the cluster of weights to serve in the model's place.",
        ),
        "benchmarks": Param(None, type=["null", "array"], title="Benchmarks", **_choice(benchmarks)),
        "walltime": Param(
            walltime,
            type=["null", "string"],
            pattern=_WALLTIME,
            title="Walltime",
            description="Time limit of each Slurm job, as 4:00:00 or 1-12:00:00.",
        ),
        "limit": Param(
            limit,
            type=["null", "integer"],
            minimum=1,
            title="Limit",
            description="Evaluate only so many samples of each benchmark.",
        ),
    }


def _choice(names: Sequence[str]) -> dict[str, Any]:
    if not names:
        return {
            "items": {"type": "string", "pattern": _PATTERN},
            "description": "Names or patterns such as mmlu* or !slow_*, one a line; all when empty.",
        }
    return {
        "items": {"type": "string", "enum": list(names)},
        "examples": list(names),  # makes it a list to choose from, where a bare enum is a field for JSON
        "uniqueItems": True,
        "description": "All when none is chosen.",
    }


def overrides_from_params() -> list[str]:
    """`overrides` for `gym_evals` and `GymEvalOperator` that follow `gym_params`.

    The checkpoint may also come from the asset event that started the run: from `checkpoint` in its extra.
    """
    return [
        CHECKPOINT + "@policy.model={{ checkpoint.path or params.get('model') or '' }}",
        CHECKPOINT + "@policy.served_model_name={{ (params.get('model') or '') if checkpoint.path else '' }}",
        "@cluster.walltime={{ params.get('walltime') or '' }}",
        "@run.limit={{ params.get('limit') or '' }}",
    ]


def benchmarks_from_params() -> str:
    """`benchmarks` for `gym_evals` that follow `gym_params`."""
    return "{{ params.get('benchmarks') or '' }}"
