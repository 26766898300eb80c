"""Each section of a resolved tree against its model, with every mistake in the words of the config's author."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from airflow_gym_provider.config.errors import Problem, dotted
from airflow_gym_provider.config.fields import kind_of, shown
from airflow_gym_provider.config.scalars import Unresolved
from airflow_gym_provider.config.suggest import did_you_mean, one_of

# Required text that no rule across sections reads; stands in so that the rest can still be checked.
_FILLERS = {"container": "-", "model": "-", "account": "-"}
# Fields that the rules about GPUs, ports and placement do not read, so that a mistake there leaves those rules sure.
_UNRELATED = frozenset(
    {"benchmarks", "env", "extra_args", "forward_env", "gym_install", "health_check", "hostname", "mounts"}
    | {"pre_command", "walltime", *_FILLERS}
)
_GUESS = re.compile(r"is not a known key; did you mean '([^']*)'\?\Z")
Model = TypeVar("Model", bound=BaseModel)


def check_section(
    model: type[Model], data: Any, where: str, environ: Mapping[str, str], problems: list[Problem]
) -> tuple[Model | None, bool]:
    """Validate ``data`` and report every mistake under ``where``.

    Returns the model, made without the fields that are wrong, or None when it cannot be; and whether it is sure: a
    model in which a default stands for a wrong size or port must not be judged by it.
    """
    errors = _attempt(model, data, environ)
    if not isinstance(errors, list):
        return errors, True
    problems += _without_misspelt([problem for error in errors if (problem := _problem(model, where, error))])
    trimmed = copy.deepcopy(data)
    taken_out = [isinstance(data, dict) and _trim(trimmed, error) for error in errors]
    rest = _attempt(model, trimmed, environ) if all(taken_out) else []
    if isinstance(rest, list):
        return None, False
    return rest, all(error["type"] == "extra_forbidden" or _UNRELATED & set(_path(error)) for error in errors)


def known_fields(model: type[BaseModel], path: tuple[str, ...]) -> list[str]:
    """Return the fields that exist at a path inside a model; none where any key is allowed."""
    current: Any = model
    for key in path:
        current = _step(current, key)
    return list(current.model_fields) if _is_model(current) else []


def _step(annotation: Any, key: str) -> Any:
    """Return the type of what stands under ``key`` in a value of this type: a model, a container of one, or None."""
    if _is_model(annotation):
        found = annotation.model_fields.get(key)
        return _inner(found.annotation) if found else None
    return _inner(get_args(annotation)[-1]) if get_origin(annotation) in (dict, list) else None


def _inner(annotation: Any) -> Any:
    """Return the part of an optional or annotated type that has keys of its own."""
    if _is_model(annotation) or get_origin(annotation) in (dict, list):
        return annotation
    return next((inner for part in get_args(annotation) if (inner := _inner(part)) is not None), None)


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _attempt(model: type[Model], data: Any, environ: Mapping[str, str]) -> Model | list[ErrorDetails]:
    try:
        return model.model_validate(data, context={"environ": environ})
    except ValidationError as error:
        return error.errors(include_url=False)


def _path(error: ErrorDetails) -> tuple[str, ...]:
    return tuple(str(key) for key in error["loc"] if key not in ("[key]", "(flag)", "(limits)"))


def _problem(model: type[BaseModel], where: str, error: ErrorDetails) -> Problem | None:
    if isinstance(error["input"], Unresolved):
        return None  # reported where it could not be resolved
    path = _path(error)
    place = f"{where}.{dotted(path)}" if path else where
    place = place if place.isprintable() else repr(place)
    unset = error.get("ctx", {}).get("unset")
    return Problem(place, _sentence(model, where, path, error), unset, absent=error["type"] == "missing")


def _sentence(model: type[BaseModel], where: str, path: tuple[str, ...], error: ErrorDetails) -> str:
    kind, value = error["type"], error["input"]
    if kind == "missing":
        return "is required"
    if kind == "extra_forbidden":
        known = known_fields(model, path[:-1])
        level = _other_level(model, where, path)
        return f"is not a known key{level or did_you_mean(path[-1], known) or f'; known are {one_of(known)}'}"
    if kind in ("dict_type", "model_type", "model_attributes_type"):
        return f"must be a mapping, not {kind_of(value)}"
    if kind == "list_type":
        return f"must be a list, not {kind_of(value)}"
    if kind == "literal_error":
        return f"must be {error['ctx']['expected']}, not {shown(value)}"
    return str(error["msg"])


def _other_level(model: type[BaseModel], where: str, path: tuple[str, ...]) -> str:
    """Say where a key exists that does not exist here: further in, or further out. Nothing when it does not."""
    *outer, key = path
    here = known_fields(model, tuple(outer))
    inner = [".".join(sub) for name in here for sub in ((name,), (name, "<name>")) if key in _known(model, outer, sub)]
    if inner:
        return f" here; set it in {' and '.join(inner)}"
    for end in range(len(outer) - 1, -1, -1):
        if key in known_fields(model, tuple(outer[:end])):
            return f" here; set it on {'.'.join((where, *outer[:end]))}"
    return ""


def _known(model: type[BaseModel], outer: Sequence[str], inner: Sequence[str]) -> list[str]:
    return known_fields(model, (*outer, *inner))


def _without_misspelt(problems: list[Problem]) -> list[Problem]:
    """Make one problem of a required key that is missing and of the unknown one that was meant to be it."""
    missing = {problem.where for problem in problems if problem.what == "is required"}
    misspelt: dict[str, Problem] = {}
    for problem in problems:
        if guess := _GUESS.search(problem.what):
            meant = f"{problem.where.rpartition('.')[0]}.{guess[1]}"
            if meant in missing:
                misspelt.setdefault(meant, problem)
    named = {problem: meant.rpartition(".")[2] for meant, problem in misspelt.items()}
    return [
        replace(problem, what=f"{problem.what} {named[problem]} is required") if problem in named else problem
        for problem in problems
        if problem.what != "is required" or problem.where not in misspelt
    ]


def _trim(data: dict[str, Any], error: ErrorDetails) -> bool:
    """Take one mistake out of ``data``, or fill in text that is missing; False when it has no place of its own."""
    path = _path(error)
    if not path:
        return False
    holder = data
    for key in path[:-1]:
        if not isinstance(holder.get(key), dict):
            break  # a list, or no mapping at all: the whole field goes
        holder = holder[key]
    else:
        key = path[-1]
    if key in _FILLERS and error["type"] != "extra_forbidden":
        holder[key] = _FILLERS[key]
    else:
        holder.pop(key, None)  # gone already when two mistakes share a field
    return True
