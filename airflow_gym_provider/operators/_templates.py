"""Templates in an operator's `config` and `overrides`: what they bring in is text, as in config files.

See `config.brought_in`: who may fill in a form is not thereby to read the worker's environment, or to write a config.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

_ONE_EXPRESSION = re.compile(r"\{\{(?:(?!\}\}).)*\}\}", re.DOTALL)


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


def stays_below(given: Any, found: Any) -> None:
    """Of a path to a config file, `given` by its author and `found` when its templates were filled in: these lead no
    folder up. A path that is one expression is its own. Raises AirflowFailException.
    """
    from airflow.sdk.exceptions import AirflowFailException

    if isinstance(given, list | tuple) and isinstance(found, list | tuple) and len(given) == len(found):
        for one, filled in zip(given, found, strict=True):
            stays_below(one, filled)
    if not isinstance(given, str) or not isinstance(found, str) or _ONE_EXPRESSION.fullmatch(given.strip()):
        return
    if found.split("/").count("..") > given.split("/").count(".."):
        raise AirflowFailException(
            f"The submit config cannot be used: a template brings '..' into its path, {given!r} is {found!r}; "
            "write the folder yourself, or give the whole path by one expression"
        )


class _AsText:
    """In the place of a task's output (`task.output`): what it brings in is text as of `{{ ti.xcom_pull() }}`."""

    def __init__(self, given: Any, change: Callable[[Any], Any]) -> None:
        self.given = given
        self.change = change

    def resolve(self, context: Any) -> Any:
        return self.change(self.given.resolve(context))


def with_xcoms_as_text(value: Any, *, overrides: bool) -> Any:
    """A field in which outputs of other tasks bring in text, as expressions do: those within a mapping, and each that
    is one of several overrides. What is a whole config, one of its parts or all the overrides is its author's.
    """
    if overrides:
        each = value if isinstance(value, list | tuple) else ()
        if not any(map(_is_xcom, each)):
            return value
        return [_AsText(item, lambda found: _in_an_override(str(found))) if _is_xcom(item) else item for item in each]
    if isinstance(value, list | tuple):
        return type(value)(with_xcoms_as_text(item, overrides=False) for item in value)
    return _within(value) if isinstance(value, Mapping) else value


def _within(value: Any) -> Any:
    if _is_xcom(value):
        return _AsText(value, _marked)
    if isinstance(value, Mapping):
        return {key: _within(item) for key, item in value.items()}
    return type(value)(map(_within, value)) if type(value) in (list, tuple) else value


def _is_xcom(value: Any) -> bool:
    from airflow.sdk.definitions._internal.mixins import ResolveMixin

    return isinstance(value, ResolveMixin)


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


class _Structure:
    """A list or mapping that a template of native objects brings in: itself where the expression is all of its
    template, and a text in a longer one, where Jinja asks for that by `str`.
    """

    text: str

    def __str__(self) -> str:
        return self.text


class _List(_Structure, list[Any]):
    pass


class _Mapping(_Structure, dict[str, Any]):
    pass


def _in_a_mapping(native: bool, value: Any) -> Any:
    from airflow_gym_provider.config.brought_in import mark, plain
    from airflow_gym_provider.operators._jinja import Block, Json

    if value is None or isinstance(value, bool | int | float | Block | _Structure):
        return value
    # as a `repr` has it, marks that are in a value by now would be spelt as something else
    text = mark(plain(str(value if isinstance(value, str) else _each(value, plain, plain))))
    content = json.loads(value) if native and isinstance(value, Json) else value
    if content is None or isinstance(content, bool | int | float):
        return content
    if not native or not isinstance(content, Mapping | list | tuple):
        return mark(content) if isinstance(value, Json) and native else text
    found = _Mapping(_marked(content)) if isinstance(content, Mapping) else _List(_marked(content))
    found.text = text
    return found


def _marked(value: Any) -> Any:
    """A value as it may stand in a config; what is none of JSON's is its text, as in templates that give texts."""
    from airflow_gym_provider.config.brought_in import mark

    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {mark(str(key)): _marked(item) for key, item in value.items()}
    return list(map(_marked, value)) if isinstance(value, list | tuple) else mark(str(value))


def _paths_are_plain(value: Any) -> Any:
    from airflow_gym_provider.config.brought_in import plain

    if isinstance(value, list | tuple):
        found = [_paths_are_plain(item) for item in value]
        return tuple(found) if isinstance(value, tuple) else found
    return plain(value) if isinstance(value, str) else value


def _each(value: Any, change: Callable[[str], str], keys: Callable[[str], str] = str) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {keys(str(key)): _each(item, change, keys) for key, item in value.items()}
    if isinstance(value, list | tuple):
        found = [_each(item, change, keys) for item in value]
        return tuple(found) if isinstance(value, tuple) else found
    return value
