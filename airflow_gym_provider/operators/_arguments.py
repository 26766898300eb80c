"""An operator's arguments as the rooms behind it take them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_gym_provider.operators._config import ConfigSource


def given_overrides(overrides: Sequence[str] | str | None) -> list[str]:
    """The overrides that are there: one whose template came to nothing is none. One text is one override."""
    texts = [overrides] if isinstance(overrides, str) else list(overrides or ())
    return [text for text in map(str, texts) if text.strip()]


def refuse_stored_values(environ: Mapping[str, str] | None, what: str = "a mapped task's arguments") -> None:
    """Raise ValueError for an `environ` among `what` that holds values: Airflow stores it, so secrets with it."""
    plain = [name for name, value in (environ or {}).items() if "{{" not in str(value)]
    if plain:
        raise ValueError(
            f"environ: Airflow stores {what}, so give templates and no values for "
            f"{', '.join(plain)}, such as {{{{ conn.name.password }}}} or {{{{ var.value.name }}}}; "
            f"what is no secret can be lit: in the config"
        )


def refuse_dag_defaults(dag: Any) -> None:
    """Raise ValueError where a DAG's default_args hold values of `environ`: Airflow stores and shows these."""
    if dag is not None:
        refuse_stored_values((dag.default_args or {}).get("environ"), "a DAG's default_args")


@dataclass(frozen=True)
class SubmitArguments:
    """Rendered arguments of a task that queues benchmarks: all of the config, or those named.

    `environ` may hold secrets and is in no repr.
    """

    config: ConfigSource
    benchmark: str | Sequence[str] | None
    overrides: Sequence[str]
    environ: Mapping[str, str] = field(repr=False)
    ssh_conn_id: str | None
    retries: int


@dataclass(frozen=True)
class EvalArguments:
    """Rendered arguments of one evaluation task. Times are seconds; `environ` may hold secrets and is in no repr."""

    config: ConfigSource
    benchmark: str | None
    overrides: Sequence[str]
    environ: Mapping[str, str]
    ssh_conn_id: str | None
    poll_interval: float
    results_timeout: float
    lost_after: float
    run_group: str | None
    execution_timeout: float | None
    retry_delay: float
    retries: int
    follow_log: bool = False

    def __repr__(self) -> str:
        return f"<EvalArguments benchmark={self.benchmark!r} ssh_conn_id={self.ssh_conn_id!r}>"
