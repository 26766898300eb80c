"""Interpolations: ``${...}`` becomes a value, every failure is reported, reads of the environment are remembered."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import InterpolationKeyError, OmegaConfBaseException
from omegaconf.resolvers.oc import env as omegaconf_env

from airflow_gym_provider.config.brought_in import FilledIn, inert, is_more_than_words, mark, plain, read_again, settled
from airflow_gym_provider.config.errors import Problem, dotted
from airflow_gym_provider.config.hiding import CREDENTIAL, NOT_SHOWN, name_to_show
from airflow_gym_provider.config.scalars import Unresolved
from airflow_gym_provider.config.show import escape
from airflow_gym_provider.config.tree import ENV_RESOLVER

_MISSING = "???"
_READ = "(read from the environment)"
_UNSET: Any = object()
_MAX_DEPTH = 100
_MAX_VALUES = 100_000
# Around a reference while the text about it is escaped, with what nobody knows who fills in a form.
_NONCE = secrets.token_hex(8)
_MARK = re.compile(f"(?<!\\\\)(\\\\*)\ue0f0{_NONCE}([^\ue0f1]*)\ue0f1")
# Lines for a shell, as their author wrote them: what somebody fills in must not become one.
_SHELL_TEXT = ("command", "pre_command")
_NO_SHELL_WORD = (
    'is for a shell to read, and a template brings in more than words: put one value into `env` (NAME: "lit:{{ … }}") '
    'and write "$NAME" here; for options of yours, {% if … %}--option{% endif %}'
)
_NO_PREFIX = 'begins with {} by what its template brings in, which would read a variable: write "lit:{{{{ … }}}}"'


@dataclass
class Environment:
    """The submitting environment while interpolations are resolved, and a record of what they read.

    With ``show`` a variable yields its reference instead of its value; with ``defer`` even when it is not set.
    """

    environ: Mapping[str, str]
    show: bool = False
    defer: bool = False
    names: set[str] = field(default_factory=set)
    values: set[str] = field(default_factory=set)
    unset: str | None = None
    """The variable for want of which the last interpolation failed."""

    def read(self, name: str, default: Any = _UNSET) -> str | None:
        """Return what ``${oc.env:name,default}`` stands for. Raises KeyError when there is nothing."""
        if self.defer or (self.show and name in self.environ):
            suffix = "" if default is _UNSET or not self.defer else f",{default}"
            return f"\ue0f0{_NONCE}{name}{suffix}\ue0f1"
        if name in self.environ:
            self.names.add(name)
            self.note(name, self.environ[name])
            value = self.environ[name]  # text, also where one more reader looks
            return mark(value) if isinstance(value, FilledIn) else value.replace("$", inert("$"))
        if default is _UNSET:
            self.unset = name
            raise KeyError(f"environment variable {name_to_show(name) or f'({NOT_SHOWN})'} is not set")
        return None if default is None else str(default)

    def note(self, name: str, value: str) -> None:
        """What is read may be a secret and gets masked, but for paths: masked, nobody could find a run's folder."""
        if not value.startswith("/") or CREDENTIAL.search(name):
            self.values.add(value)


@dataclass
class Resolved:
    """A plain tree without scratch keys; ``references`` are the texts to show in place of the environment's."""

    tree: dict[str, Any]
    references: dict[tuple[str, ...], str]
    read_values: frozenset[str]


_current: ContextVar[Environment] = ContextVar("airflow_gym_environment")


def _read_variable(name: str, default: Any = _UNSET) -> str | None:
    return _current.get().read(name, default)


def _read_variable_or_ours(name: str, default: Any = _UNSET) -> str | None:
    if _current.get(None) is not None:
        return _read_variable(name, default)
    return omegaconf_env(name) if default is _UNSET else omegaconf_env(name, default)


@contextmanager
def reading(environ: Mapping[str, str]) -> Iterator[Environment]:
    """Let ``${oc.env:...}`` see ``environ`` and nothing else, in this context, while a config is made."""
    # Registered each time, as OmegaConf.clear_resolvers() anywhere in the process would drop it.
    OmegaConf.register_new_resolver(ENV_RESOLVER, _read_variable, replace=True)
    # What resolvers put together of texts and keys has its own name, and is to see no other environment.
    OmegaConf.register_new_resolver("oc.env", _read_variable_or_ours, replace=True)
    environment = Environment(environ)
    token = _current.set(environment)
    try:
        yield environment
    finally:
        _current.reset(token)


def resolve(config: DictConfig, environment: Environment, problems: list[Problem]) -> Resolved:
    """Resolve every interpolation within ``reading``, then drop the scratch keys.

    Failures are reported by place, and what follows from them is not. ``driver.policy_host`` is not resolved, apart
    from references to other places of the config.
    """
    _defer_policy_host(config, environment)
    walk = _Walk(environment, problems)
    tree = {key: walk.value(config, key, (str(key),)) for key in list(config) if not str(key).startswith("_")}
    return Resolved(tree, walk.references, frozenset(environment.values))


class _Walk:
    def __init__(self, environment: Environment, problems: list[Problem]) -> None:
        self.environment = environment
        self.problems = problems
        self.references: dict[tuple[str, ...], str] = {}
        self.count = 0

    def value(self, parent: DictConfig | ListConfig, key: Any, path: tuple[str, ...]) -> Any:
        self.count += 1
        if len(path) > _MAX_DEPTH or self.count > _MAX_VALUES:
            return self._fail(path[:4], "is nested too deeply, or an interpolation contains itself")
        if OmegaConf.is_missing(parent, key):
            what = "is ??? (a value that has to be given); set it in the file or with an override"
            return self._fail(path, what, absent=True)
        self.environment.names.clear()
        self.environment.unset = None
        try:
            value = parent[key]
        except (OmegaConfBaseException, RecursionError) as error:
            absent = isinstance(error, InterpolationKeyError)
            return self._fail(path, _reason(error, parent, key), unset=self.environment.unset, absent=absent)
        names = set(self.environment.names)
        if names:
            self._note_taken_out(value, path, names)
        if isinstance(value, DictConfig):
            return {str(name): self.value(value, name, (*path, str(name))) for name in value}
        if isinstance(value, ListConfig):
            return [self.value(value, number, (*path, str(number))) for number in range(len(value))]
        if isinstance(value, str) and names:
            self._note_reference(parent, key, path, names)
        return self._settled(value, path)

    def _settled(self, value: Any, path: tuple[str, ...]) -> Any:
        if isinstance(value, dict):  # of a resolver, as is a list
            return {plain(str(key)): self._settled(item, (*path, str(key))) for key, item in value.items()}
        if isinstance(value, list):
            return [self._settled(item, (*path, str(number))) for number, item in enumerate(value)]
        if not isinstance(value, str):
            return value
        if _is_for_a_shell(path) and is_more_than_words(value):
            return self._fail(path, _NO_SHELL_WORD)
        for prefix in ("host:", "runtime:") if path[-2:-1] == ("env",) and not read_again(path) else ():
            if plain(value).startswith(prefix) and not value.startswith(prefix):  # not as its author wrote it
                return self._fail(path, _NO_PREFIX.format(prefix))
        return settled(value, path)

    def _note_taken_out(self, value: Any, path: tuple[str, ...], names: set[str]) -> None:
        """What a resolver takes out of a variable may be a secret, and is spelt in another way than there. For a part
        of a mapping or list there is no reference that could be shown.
        """
        if isinstance(value, DictConfig | ListConfig):  # may also be one of the file, which a variable has chosen
            self._note_parts(OmegaConf.to_container(value), path, names, made=False)
        elif isinstance(value, dict | list):
            self._note_parts(value, path, names, made=True)
        elif isinstance(value, str):
            self._note_text(plain(value), names, made=False)

    def _note_parts(self, value: Any, path: tuple[str, ...], names: set[str], made: bool) -> None:
        if isinstance(value, dict | list):
            for key, item in value.items() if isinstance(value, dict) else enumerate(value):
                self._note_parts(item, (*path, plain(str(key))), names, made)
        elif isinstance(value, str) and self._note_text(plain(value), names, made) and _is_shown(path, names):
            of_env = path[-2:-1] == ("env",)  # where host:NAME and runtime:NAME are references themselves
            if not (of_env and value.startswith(("host:", "runtime:"))):
                self.references[path] = f"lit:{_READ}" if of_env else _READ

    def _note_text(self, text: str, names: set[str], made: bool) -> bool:
        found = [name for name in names if made or _is_within(text, self.environment.environ[name])]
        for name in found:
            self.environment.note(name, text)
        return bool(found)

    def _note_reference(self, parent: Any, key: Any, path: tuple[str, ...], names: set[str]) -> None:
        if not _is_shown(path, names):
            return
        self.environment.show = True
        try:
            self.references[path] = _with_references(settled(str(parent[key]), path))
        except (OmegaConfBaseException, RecursionError):
            self.references[path] = _READ
        finally:
            self.environment.show = False

    def _fail(self, path: tuple[str, ...], what: str, *, unset: str | None = None, absent: bool = False) -> Unresolved:
        self.problems.append(Problem(dotted(path), what, unset, absent=absent))
        return Unresolved()


def _is_shown(path: tuple[str, ...], names: set[str]) -> bool:
    """Whether what was read is shown as a reference to it."""
    return "env" in path[1:-1] or any(CREDENTIAL.search(name) for name in names)


def _is_within(text: str, value: str) -> bool:
    """Whether a text is what a resolver took out of a value: a part of it, but for the signs that quote it there."""
    return text.replace("\\", "") in value.replace("\\", "")


def _is_for_a_shell(path: tuple[str, ...]) -> bool:
    """Whether a place holds lines for a shell, or a service's arguments as a shell reads them."""
    return not read_again(path) and (path[-1] in _SHELL_TEXT or (path[0] == "services" and path[-1] == "extra_args"))


def _defer_policy_host(config: DictConfig, environment: Environment) -> None:
    """Leave ``${oc.env:X}`` in the policy's host, and in a URL that was written from it, to the driver."""
    driver = config.get("driver") if not OmegaConf.is_missing(config, "driver") else None
    if not isinstance(driver, DictConfig):
        return
    environment.defer = True
    try:
        host = _deferred(driver, "policy_host")
        if host is None:
            return
        benchmarks = driver.get("benchmarks")
        for benchmark in benchmarks.values() if isinstance(benchmarks, DictConfig) else ():
            run = benchmark.get("run") if isinstance(benchmark, DictConfig) else None
            if not isinstance(run, DictConfig):
                continue
            url = _deferred(run, "policy_base_url", change=False)
            if url and re.fullmatch(rf"http://{re.escape(host)}:[0-9]+/v1", url):
                run.policy_base_url = escape(url)
    except (OmegaConfBaseException, RecursionError):
        pass  # the walk meets the same mistake and reports it with its place
    finally:
        environment.defer = False


def _deferred(parent: DictConfig, key: str, change: bool = True) -> str | None:
    """Resolve one text but for the environment; None when it refers to no variable."""
    if not OmegaConf.is_interpolation(parent, key):
        return None
    text = _with_references(str(parent[key]), escaping=False)
    if "${" not in text:
        return None
    if change:
        parent[key] = escape(text)
    return text


def _with_references(text: str, escaping: bool = True) -> str:
    """Replace marks by references; the rest is escaped, unless the result is itself a literal."""
    if not escaping:
        return _MARK.sub(lambda mark: f"{mark[1]}${{oc.env:{mark[2]}}}", text)
    return _MARK.sub(lambda mark: f"{mark[1] * 2}${{oc.env:{mark[2]}}}", escape(text))


def _reason(error: BaseException, parent: Any, key: Any) -> str:
    """Say why an interpolation failed, in the words of the config's author."""
    if isinstance(error, RecursionError):
        return "an interpolation refers to itself"
    line = str(error).splitlines()[0].replace(ENV_RESOLVER, "oc.env")
    if line.startswith(("Recursive interpolation", "Interpolation to parent node")):
        return f"{line}: it refers to itself, maybe by way of others; write a value in one of them"
    line = re.sub(r"^KeyError raised while resolving interpolation: ", "", line).strip("'\"")
    line = re.sub(r"^Unsupported interpolation type (.*)$", r"there is no resolver \1", line)
    return rf"{line}; for a ${{...}} that is not an interpolation but text for a shell, write \${{...}}"
