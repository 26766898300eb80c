"""Templates in an operator's `config` and `overrides`: what they bring in is text, as in config files.

See `config.brought_in`: who may fill in a form is not thereby to read the worker's environment, or to write a config.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any


def filled_in(render: Callable[[Any], Any], environment: Any, *, overrides: bool) -> Any:
    """What `render` makes of a field with a Jinja environment like the one given, for `load_submit_config` to read.

    What templates bring into a mapping or an override is known there as text; into a path, it is the path. For people,
    see `shown`.
    """
    from jinja2.nativetypes import NativeEnvironment

    from airflow_gym_provider.config.brought_in import whole
    from airflow_gym_provider.operators._jinja import knowing_blocks

    native = isinstance(environment, NativeEnvironment)
    if overrides:
        found = render(knowing_blocks(environment, _in_an_override))
        return _each(found, whole)
    return _paths_are_plain(render(knowing_blocks(environment, partial(_in_a_mapping, native))))


def shown(value: Any) -> Any:
    """What `filled_in` gave, as it is stored and shown: without a trace of how it came to be."""
    from airflow_gym_provider.config.brought_in import from_words, plain

    def for_people(text: str) -> str:
        try:
            return plain(from_words(text))
        except ValueError:  # told when it is read
            return plain(text)

    return _each(value, for_people, plain)


def _in_an_override(value: Any) -> Any:
    from airflow_gym_provider.config.brought_in import as_word, as_words
    from airflow_gym_provider.operators._jinja import Block, Json

    if value is None or isinstance(value, bool | int | float | Block):
        return value
    if isinstance(value, Json):
        value = json.loads(value)
        return as_words(value) if isinstance(value, dict | list) else _in_an_override(value)
    return as_words(value) if isinstance(value, Mapping | list | tuple) else as_word(str(value))


def _in_a_mapping(native: bool, value: Any) -> Any:
    from airflow_gym_provider.config.brought_in import mark
    from airflow_gym_provider.operators._jinja import Block, Json

    if isinstance(value, Json) and native:
        return _each(json.loads(value), mark, mark)
    if value is None or isinstance(value, bool | int | float | Block):
        return value
    if isinstance(value, str):
        return mark(value)
    return _each(value, mark, mark) if native else mark(str(value))


def _paths_are_plain(value: Any) -> Any:
    from airflow_gym_provider.config.brought_in import plain

    if isinstance(value, list | tuple):
        return type(value)(_paths_are_plain(item) for item in value)
    return plain(value) if isinstance(value, str) else value


def _each(value: Any, change: Callable[[str], str], keys: Callable[[str], str] = str) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {keys(str(key)): _each(item, change, keys) for key, item in value.items()}
    return type(value)(_each(item, change, keys) for item in value) if isinstance(value, list | tuple) else value
