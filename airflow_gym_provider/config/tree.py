"""Between plain trees and OmegaConf: what may enter a config, and which ``${...}`` reads the environment."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import GrammarParseError, OmegaConfBaseException

from airflow_gym_provider.config.brought_in import is_marked, plain
from airflow_gym_provider.config.errors import Problem, dotted
from airflow_gym_provider.config.fields import kind_of
from airflow_gym_provider.config.scalars import Scalar, Unresolved
from airflow_gym_provider.config.show import escape

# ${oc.env:X} would read this process's environment; under its own name it reads the one given to load_submit_config.
ENV_RESOLVER = "airflow_gym.env"
_OC_ENV = re.compile(r"(?<!\\)((?:\\\\)*\$\{\s*)oc\.env(\s*:)")
REQUIRED_SECTIONS = ("services", "compute", "driver", "job")
SECTIONS = (*REQUIRED_SECTIONS, "otel")
_MAX_DEPTH = 100


def empty_config() -> DictConfig:
    """Return an empty OmegaConf mapping that can hold scalars with their spelling."""
    return DictConfig({}, flags={"allow_objects": True})


def to_config(tree: Mapping[Any, Any], problems: list[Problem], path: tuple[str, ...] = ()) -> DictConfig:
    """Turn a tree into OmegaConf. What cannot be part of a config is reported and left out."""
    return DictConfig(clean(tree, problems, path), flags={"allow_objects": True})


def merge_into(config: DictConfig, part: DictConfig, name: str, problems: list[Problem]) -> None:
    """Merge one part of a config over those before it, in place; ``name`` is what messages call the part.

    A list does not go over a mapping, nor a mapping over a list: each such place is reported, and unknown from then on.
    """
    for path, before, after in list(clashes(OmegaConf.to_container(config), OmegaConf.to_container(part))):
        kinds = f"{kind_of(after)} in {name} and {kind_of(before)} in what comes before it"
        cure = "write the same kind in both, or leave it out of one"
        problems.append(Problem(dotted(path), f"cannot be merged: it is {kinds}; {cure}", unread=True))
        holder: Any = part
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = Unresolved()
    try:
        config.merge_with(part)
    except OmegaConfBaseException as error:
        what = f"cannot be merged: {str(error).splitlines()[0]} ({name})"
        problems.append(Problem(str(error.full_key or ""), what, unread=True))


def clashes(before: Any, after: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Return every place at which a list meets a mapping, with both."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in after:
            if key in before:
                yield from clashes(before[key], after[key], (*path, str(key)))
    elif isinstance(before, (dict, list)) and isinstance(after, (dict, list)) and type(before) is not type(after):
        yield path, before, after


def clean(value: Any, problems: list[Problem], path: tuple[str, ...]) -> Any:
    """Return a value with text keys and plain types; broken interpolations are reported and made literal."""
    if isinstance(value, (str, os.PathLike)):
        return _text(str(os.fspath(value)), problems, path)
    if value is None or isinstance(value, (bool, int, float, Scalar, Unresolved)):
        return value
    if len(path) > _MAX_DEPTH:
        problems.append(Problem(dotted(path[:3]), "is nested too deeply"))
    elif isinstance(value, Mapping):
        return {_key(key, problems, path): clean(item, problems, (*path, str(key))) for key, item in value.items()}
    elif isinstance(value, (list, tuple)):
        return [clean(item, problems, (*path, str(number))) for number, item in enumerate(value)]
    else:
        what = f"holds a {type(value).__name__}, which is no YAML value; write it as text"
        problems.append(Problem(dotted(path), what))
    return Unresolved()


def _key(key: Any, problems: list[Problem], path: tuple[str, ...]) -> str:
    """Resolvers such as ``oc.dict.values`` make interpolations out of keys: what was brought in is not for that."""
    name = plain(str(key))
    if is_marked(str(key)) and any(sign in name for sign in "${}"):
        problems.append(Problem(dotted(path), "a template brings in a key with one of $, { and } in it"))
        return ""
    return name


def _text(text: str, problems: list[Problem], path: tuple[str, ...]) -> str:
    if "${" not in text:
        return text
    renamed = _OC_ENV.sub(rf"\1{ENV_RESOLVER}\2", text)
    try:
        OmegaConf.create({"text": renamed})
    except GrammarParseError as error:
        reason = str(error).split("\n", 1)[0]
        hidden = "env" in path[:-1]  # what stands beside the mistake may be a secret
        quoted = "the text" if hidden else repr(plain(text))
        cure = r"close it, or write \${ for a literal ${"
        detail = "" if hidden else f" ({reason})"
        problems.append(Problem(dotted(path), f"{quoted} holds a broken ${{...}}{detail}; {cure}"))
        return escape(text)
    return renamed
