"""`partial` of our operators: what is expanded is checked as what `partial` is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from airflow.sdk.definitions.mappedoperator import OperatorPartial

from airflow_gym_provider.operators._arguments import refuse_stored_values


@attrs.define(kw_only=True, repr=False)
class GuardedPartial(OperatorPartial):
    """As OperatorPartial; `expand` and `expand_kwargs` raise ValueError for an `environ` that would be stored."""

    def _expand(self, expand_input: Any, *, strict: bool) -> Any:
        try:
            for environ in _environs(expand_input.value):
                if environ is not None and not isinstance(environ, Mapping):
                    raise ValueError("environ: Airflow stores what a task returns, so it cannot be mapped over that")
                refuse_stored_values(environ)
        except ValueError:
            self._expand_called = True  # Airflow's warning of a task that was never mapped would hide the reason
            raise
        return super()._expand(expand_input, strict=strict)


def guarded(partial: OperatorPartial) -> GuardedPartial:
    """The same partial, with a check."""
    partial._expand_called = True
    return GuardedPartial(operator_class=partial.operator_class, kwargs=partial.kwargs, params=partial.params)


def _environs(value: Any) -> list[Any]:
    """Every `environ` of an expand input: one mapping of lists, or a list of mappings."""
    if isinstance(value, Mapping):
        environs = value.get("environ", ())
        return list(environs) if isinstance(environs, Sequence) else [environs]
    rows = value if isinstance(value, Sequence) else ()
    return [row.get("environ") for row in rows if isinstance(row, Mapping)]
