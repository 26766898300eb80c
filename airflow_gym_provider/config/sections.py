"""Each section of a resolved tree against its model, with every mistake in the words of the config's author."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from airflow_gym_provider.config.errors import Problem
from airflow_gym_provider.config.fields import kind_of
from airflow_gym_provider.config.resolve import Unresolved
from airflow_gym_provider.config.suggest import did_you_mean, one_of

# Fields that no rule across sections looks at: with a mistake there, the rest can still be checked.
_UNRELATED = frozenset(
    {"env", "extra_args", "forward_env", "gym_install", "health_check", "hostname", "mounts", "pre_command", "walltime"}
)
# Required text that no rule across sections reads; stands in so that the rest can still be checked.
_FILLERS = {"container": "-", "model": "-", "account": "-"}
Model = TypeVar("Model", bound=BaseModel)


def check_section(
    model: type[Model], data: Any, where: str, environ: Mapping[str, str], problems: list[Problem]
) -> Model | None:
    """Validate ``data`` and report every mistake under ``where``.

    Returns the model as far as it can be made without guessing at what the rules across sections depend on, or None.
    """
    errors = _attempt(model, data, environ)
    if not isinstance(errors, list):
        return errors
    problems += [problem for error in errors if (problem := _problem(model, where, error))]
    trimmed = copy.deepcopy(data)
    taken_out = [_trim(trimmed, error) for error in errors]
    if not isinstance(data, dict) or not all(taken_out):
        return None
    rest = _attempt(model, trimmed, environ)
    return None if isinstance(rest, list) else rest


def known_fields(model: type[BaseModel], path: tuple[str, ...]) -> list[str]:
    """Return the fields that exist at a path inside a model; none where any key is allowed."""
    current: Any = model
    for key in path:
        if isinstance(current, type) and issubclass(current, BaseModel):
            found = current.model_fields.get(key)
            current = _model_in(found.annotation) if found else None
    return list(current.model_fields) if isinstance(current, type) and issubclass(current, BaseModel) else []


def _attempt(model: type[Model], data: Any, environ: Mapping[str, str]) -> Model | list[ErrorDetails]:
    try:
        return model.model_validate(data, context={"environ": environ})
    except ValidationError as error:
        return error.errors(include_url=False)


def _model_in(annotation: Any) -> Any:
    """Return the model inside an optional, a list or a mapping."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) is Annotated:
        return _model_in(get_args(annotation)[0])
    return next((model for part in get_args(annotation) if (model := _model_in(part))), None)


def _path(error: ErrorDetails) -> tuple[str, ...]:
    return tuple(str(key) for key in error["loc"] if key not in ("[key]", "(flag)", "(limits)"))


def _problem(model: type[BaseModel], where: str, error: ErrorDetails) -> Problem | None:
    if isinstance(error["input"], Unresolved):
        return None  # reported where it could not be resolved
    path = _path(error)
    place = ".".join((where, *path))
    place = place if place.isprintable() else repr(place)
    return Problem(place, _sentence(model, path, error))


def _sentence(model: type[BaseModel], path: tuple[str, ...], error: ErrorDetails) -> str:
    kind, value = error["type"], error["input"]
    if kind == "missing":
        return "is required"
    if kind == "extra_forbidden":
        known = known_fields(model, path[:-1])
        return f"is not a known key{did_you_mean(path[-1], known) or f'; known are {one_of(known)}'}"
    if kind in ("dict_type", "model_type", "model_attributes_type"):
        return f"must be a mapping, not {kind_of(value)}"
    if kind == "list_type":
        return f"must be a list, not {kind_of(value)}"
    if kind == "literal_error":
        return f"must be {error['ctx']['expected']}"
    return str(error["msg"])


def _trim(data: Any, error: ErrorDetails) -> bool:
    """Take one mistake out of ``data``; False when the rules across sections would have to guess without it."""
    path = _path(error)
    if error["type"] == "extra_forbidden":
        return _drop(data, path)
    for depth, key in enumerate(path):
        if key in _FILLERS:
            return _fill(data, path[: depth + 1])
        if key in _UNRELATED or (depth == 1 and path[0] == "benchmarks"):
            return _drop(data, path[: depth + 1])
    return False


def _drop(data: Any, path: tuple[str, ...]) -> bool:
    holder = _holder(data, path)
    if holder is not None:
        holder.pop(path[-1], None)  # gone already when two mistakes share a field
    return holder is not None


def _fill(data: Any, path: tuple[str, ...]) -> bool:
    holder = _holder(data, path)
    if holder is not None:
        holder[path[-1]] = _FILLERS[path[-1]]
    return holder is not None


def _holder(data: Any, path: tuple[str, ...]) -> dict[str, Any] | None:
    """Return the mapping in which the last key of a path stands."""
    for key in path[:-1]:
        data = data.get(key) if isinstance(data, dict) else None
    return data if isinstance(data, dict) else None
