"""From a command's words to a checked config."""

from __future__ import annotations

import argparse
import os
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_gym_provider._cli.command import CommandEnds, refused, unusable
from airflow_gym_provider.config import (
    ConfigDefaults,
    SubmitConfig,
    SubmitConfigError,
    SubmitConfigWarning,
    load_submit_config,
)
from airflow_gym_provider.exceptions import SlurmSettingsError

if TYPE_CHECKING:
    from airflow_gym_provider.config.compose import Source

_JINJA = re.compile(r"\{\{|\{%|\{#")
_REFERENCES = re.compile(r"(?:host:|oc\.env:)\s*([A-Za-z_][A-Za-z0-9_]*)")
_MOST_ROUNDS = 20


@dataclass(frozen=True)
class Loaded:
    """A config, what it warned of, and the names of the benchmarks that are wanted."""

    config: SubmitConfig
    warnings: tuple[str, ...]
    benchmarks: tuple[str, ...]


def load(args: argparse.Namespace, *, any_env: bool = False, hide: bool = False) -> Loaded:
    """The config that the words name.

    `any_env`: variables that are not set count as set, to their own name in <>. `hide`: so do those which `host:` and
    environment interpolations read, so that no secret is in what is made of it. Raises CommandEnds.
    """
    files, overrides = split_words(args.words)
    defaults = _defaults(args.conn_id)
    render = _Renderer(_template_values(args.templates or ()))
    environ: dict[str, str] = dict(os.environ)
    config, told = _load(files, overrides, environ, defaults, render, any_env=any_env)
    if hide:
        names = set(_REFERENCES.findall(config.resolved_yaml())) | set(config.forwarded_names())
        read = config.secret_values()  # also by names that do not look like a secret's, whose values stand in `run`
        names |= {name for name, value in environ.items() if value in read}
        hidden = environ | {name: f"<{name}>" for name in names}
        config, told = _load(files, overrides, hidden, defaults, render, any_env=any_env)
    return Loaded(config, told, _wanted(config, args.benchmarks))


def split_words(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Config files and overrides. What is a file is a file, whatever is in its name. Raises CommandEnds."""
    files, overrides = [], []
    for word in words:
        if _is_file(word):
            files.append(word)
        elif word.startswith("~") or "=" in word:
            overrides.append(word)
        else:
            raise unusable(f"{word!r} is neither a file that exists nor an override (KEY=VALUE, +KEY=VALUE, ~KEY)")
    if not files:
        raise unusable("no config was given: name at least one file")
    return files, overrides


def _is_file(word: str) -> bool:
    """Whether it names one. What can be no name of a file, as an override may be too long for one, names none."""
    try:
        return Path(word).is_file()
    except (OSError, ValueError):
        return False


def _defaults(conn_id: str | None) -> ConfigDefaults | None:
    if conn_id is None:
        return None
    from airflow_gym_provider._cli.cluster import connection
    from airflow_gym_provider.hooks.defaults import read_defaults

    try:
        return read_defaults(connection(conn_id))
    except SlurmSettingsError as err:
        raise unusable(str(err)) from None


def _load(
    source: Source,
    overrides: Sequence[str],
    environ: dict[str, str],
    defaults: ConfigDefaults | None,
    render: _Renderer,
    *,
    any_env: bool,
) -> tuple[SubmitConfig, tuple[str, ...]]:
    for _ in range(_MOST_ROUNDS):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", SubmitConfigWarning)
            try:
                config = load_submit_config(source, overrides, environ, render=render, defaults=defaults)
            except SubmitConfigError as err:
                if any_env and (missing := unset_variables(err) - environ.keys()):
                    environ.update({name: f"<{name}>" for name in missing})
                    continue
                raise invalid(err) from None
            except OSError as err:
                raise unusable(f"the submit config cannot be read: {err}") from None
        if any_env and config.otel.enabled and not config.has_otel_token:
            environ[config.otel.token_env] = f"<{config.otel.token_env}>"
            continue
        told = tuple(str(item.message) for item in caught if issubclass(item.category, SubmitConfigWarning))
        return config, told
    raise unusable("the submit config asks for ever more environment variables")


def unset_variables(err: SubmitConfigError) -> set[str]:
    """Environment variables for want of which a config was refused."""
    return {problem.unset for problem in err.problems if problem.unset is not None}


def invalid(err: SubmitConfigError) -> CommandEnds:
    """The end of a command whose config is wrong."""
    return CommandEnds(1, str(err), problems=[{"where": item.where, "what": item.what} for item in err.problems])


def _wanted(config: SubmitConfig, wanted: Sequence[str] | None) -> tuple[str, ...]:
    names = tuple(config.driver.benchmarks)
    for name in wanted or ():
        if name not in names:
            raise refused(f"driver.benchmarks has {', '.join(names)}: there is no {name!r}")
    return tuple(dict.fromkeys(wanted)) if wanted else names


class _Renderer:
    """The Jinja in config files, with the values that were given; the same sandbox as in a task."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values

    def __call__(self, text: str) -> str:
        if not _JINJA.search(text):
            return text
        import jinja2
        from jinja2.sandbox import SandboxedEnvironment

        environment = SandboxedEnvironment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
        try:
            return environment.from_string(text).render(self.values)
        except jinja2.UndefinedError as err:
            raise ValueError(f"{err}: a DAG run gives it; here give it with --template NAME=VALUE") from None
        except jinja2.TemplateError as err:
            cure = "Braces that are meant as text go between {% raw %} and {% endraw %}"
            raise ValueError(f"{type(err).__name__}: {err}. {cure}") from None


def _template_values(given: Sequence[str]) -> dict[str, Any]:
    """NAME=VALUE with dots in the name, as a tree."""
    values: dict[str, Any] = {}
    for item in given:
        name, equals, value = item.partition("=")
        *path, last = name.split(".")
        holder = values
        for key in path:
            holder = holder.setdefault(key, {})
            if not isinstance(holder, dict):
                raise unusable(f"--template {name}: {key} has a value already")
        if not equals or not all([*path, last]):
            raise unusable(f"--template {item!r} is not NAME=VALUE")
        holder[last] = value
    return values
