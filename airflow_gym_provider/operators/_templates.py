"""Templates in an operator's `config` and `overrides`: what they bring in is text, and no interpolation.

As in config files (see `config.brought_in`): who may fill in a form is not thereby to read the worker's environment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any


def without_interpolation(render: Callable[[Any], Any], environment: Any, *, overrides: bool) -> Any:
    """What `render` makes of a field with a Jinja environment like the one given.

    In a mapping `${` that was brought in is text, and stays marked as such. Raises AirflowFailException for an override
    that it is brought into: in Hydra's grammar it is an interpolation. What follows `@key=` is taken as it is anyway,
    and so is a path.
    """
    from jinja2.nativetypes import NativeEnvironment

    native = isinstance(environment, NativeEnvironment)
    found = render(environment.overlay(finalize=partial(_marked, native)))
    return _settled(found, _override if overrides else None)


def _marked(native: bool, value: Any) -> Any:
    from airflow_gym_provider.config.brought_in import mark

    if isinstance(value, str):
        return mark(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    return _each(value, mark) if native else mark(str(value))


def _settled(value: Any, override: Callable[[str], str] | None) -> Any:
    from airflow_gym_provider.config.brought_in import kept, plain

    if isinstance(value, Mapping):
        return _each(value, kept)
    if isinstance(value, list | tuple):
        return type(value)(_settled(item, override) for item in value)
    if isinstance(value, str):
        return (override or plain)(value)
    return value


def _override(text: str) -> str:
    from airflow.sdk.exceptions import AirflowFailException

    from airflow_gym_provider.config.brought_in import interpolates, plain
    from airflow_gym_provider.config.roles import MARK

    if interpolates(text) and not text.startswith(MARK):
        name = plain(text).split("=", 1)[0]
        raise AirflowFailException(
            f"override {name!r}: what its template brings in holds '${{', which would be an interpolation; "
            f"give it with @policy.FIELD=, @cluster.FIELD= or @run.KEY=, whose values are text"
        )
    return plain(text)


def _each(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _each(item, change) for key, item in value.items()}
    return type(value)(_each(item, change) for item in value) if isinstance(value, list | tuple) else value
