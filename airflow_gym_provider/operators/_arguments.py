"""An operator's arguments as the rooms behind it take them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_gym_provider.operators._config import ConfigSource


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

    def __repr__(self) -> str:
        return f"<EvalArguments benchmark={self.benchmark!r} ssh_conn_id={self.ssh_conn_id!r}>"
