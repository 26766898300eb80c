"""What tasks that only read and write a few files have in common: a login node that is away for a minute fails none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_gym_provider.exceptions import SlurmAuthenticationError, SlurmSettingsError

if TYPE_CHECKING:
    from airflow.sdk.definitions.mappedoperator import OperatorPartial

_DEFAULTS: dict[str, Any] = {"retries": 2, "retry_delay": timedelta(seconds=30)}


class RetriedOperator(BaseOperator):
    """Tried again twice after half a minute, unless its arguments or a DAG's `default_args` say otherwise."""

    def __init__(
        self,
        *,
        retries: int | None = _DEFAULTS["retries"],
        retry_delay: timedelta | float = _DEFAULTS["retry_delay"],
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs, retries=retries, retry_delay=retry_delay)

    @classmethod
    def partial(cls, **kwargs: Any) -> OperatorPartial:
        """As of every operator, with these retries: Airflow 3.3.0 takes none for a mapped task from `__init__`."""
        partial = super().partial(**kwargs)
        places = (partial.kwargs.get("dag"), partial.kwargs.get("task_group"))
        given: dict[str, Any] = {**kwargs, **(kwargs.get("default_args") or {})}
        for place in places:
            given |= getattr(place, "default_args", None) or {}
        partial.kwargs.update({name: value for name, value in _DEFAULTS.items() if name not in given})
        return partial


@contextmanager
def told_at_once() -> Iterator[None]:
    """Within it, what no other try mends raises AirflowFailException: a refused login is not to be tried again."""
    from airflow.sdk.exceptions import AirflowFailException

    try:
        yield
    except (SlurmAuthenticationError, SlurmSettingsError) as err:
        raise AirflowFailException(str(err)) from err
