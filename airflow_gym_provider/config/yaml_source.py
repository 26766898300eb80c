"""YAML read strictly: duplicate keys, Python tags and half-written files are errors with a line, not surprises."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import yaml

from airflow_gym_provider.config.brought_in import has_token, restored
from airflow_gym_provider.config.errors import Problem, dotted
from airflow_gym_provider.config.scalars import Scalar, Unresolved, read_plain

Render = Callable[[str], str]
# The text of every file of one config passes through it, fragments included; they are read deep inside Hydra.
_render: ContextVar[Render | None] = ContextVar("render", default=None)

_TAG = "tag:yaml.org,2002:"
_PLAIN = "!plain"
_CORE_KINDS: dict[str, type | tuple[type, ...]] = {"int": int, "float": (int, float), "bool": bool, "null": type(None)}
# Far above any config, far below what a nest of aliases can be made to expand to.
_MAX_VALUES = 100_000
_MAX_DEPTH = 100


class _Loader(yaml.SafeLoader):
    """Marks unquoted scalars instead of converting them, so that their spelling is still known."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> str:
        if kind is yaml.ScalarNode:
            return _PLAIN if implicit[0] else f"{_TAG}str"
        return f"{_TAG}map" if kind is yaml.MappingNode else f"{_TAG}seq"


class _Refused(Exception):
    """The file cannot be read any further."""


def read_yaml(text: str, name: str, problems: list[Problem]) -> dict[str, Any] | None:
    """Parse one file into a mapping with text keys; None when it cannot be used at all.

    ``name`` is what messages call the file. Mistakes are appended to ``problems``; a duplicate key does not end the
    reading. An empty file is an empty mapping. Messages hold keys and lines, never values.
    """
    try:
        node = yaml.compose(text, Loader=_Loader)  # composes nodes only; nothing is constructed
        tree = _Builder(name, problems).value(node, ()) if node is not None else {}
    except yaml.MarkedYAMLError as error:
        problems.append(Problem(_at(name, error.problem_mark or error.context_mark), _reason(error)))
    except yaml.YAMLError as error:
        reason = str(getattr(error, "reason", "cannot be read"))
        problems.append(Problem(name, f"is not YAML: {reason}"))
    except RecursionError:
        problems.append(Problem(name, "is nested too deeply"))
    except _Refused as refusal:
        problems.append(Problem(name, str(refusal)))
    else:
        if isinstance(tree, dict):
            return tree
        problems.append(Problem(name, "must be a mapping with the sections services, compute, driver and job"))
    return None


@contextmanager
def rendered_by(render: Render | None) -> Iterator[None]:
    """Within it, files are templates: what ``render`` makes of their text is what gets parsed."""
    token = _render.set(render)
    try:
        yield
    finally:
        _render.reset(token)


def read_text(path: Path, name: str, problems: list[Problem]) -> str | None:
    """Read one UTF-8 file, rendered if asked for; None, with the reason in ``problems``, when that fails."""
    try:
        return _rendered(path.read_text(encoding="utf-8-sig"), name, problems)
    except UnicodeDecodeError:
        problems.append(Problem(name, "is not UTF-8 text"))
    except (OSError, ValueError) as error:
        problems.append(Problem(name, f"cannot be read: {getattr(error, 'strerror', None) or error}"))
    return None


def _rendered(text: str, name: str, problems: list[Problem]) -> str | None:
    render = _render.get()
    if render is None:
        return text
    try:
        return render(text)
    except Exception as error:  # a template engine raises what its filters and macros raise
        problems.append(Problem(name, f"cannot be rendered as a template: {error}"))
        return None


class _Builder:
    """Turns nodes into plain values; aliases are expanded, within bounds."""

    def __init__(self, name: str, problems: list[Problem]) -> None:
        self.name = name
        self.problems = problems
        self.count = 0
        self.open: set[int] = set()

    def value(self, node: yaml.Node, path: tuple[str, ...]) -> Any:
        self.count += 1
        if self.count > _MAX_VALUES or len(path) > _MAX_DEPTH:
            raise _Refused(f"expands to more than {_MAX_VALUES} values or {_MAX_DEPTH} levels; check its aliases")
        if id(node) in self.open:
            raise _Refused(f"line {_line(node)}: an alias contains itself")
        self.open.add(id(node))
        try:
            return self._of_kind(node, path)
        finally:
            self.open.discard(id(node))

    def _of_kind(self, node: yaml.Node, path: tuple[str, ...]) -> Any:
        if isinstance(node, yaml.MappingNode) and node.tag == _TAG + "map":
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode) and node.tag == _TAG + "seq":
            return [self.value(item, (*path, str(number))) for number, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        return self._refuse_tag(node, path)

    def _scalar(self, node: yaml.ScalarNode, path: tuple[str, ...]) -> Any:
        if has_token(node.value) and node.tag in (_PLAIN, _TAG + "str"):
            return self._restored(node, path)
        if node.tag == _PLAIN:
            return read_plain(node.value)
        kind = node.tag.removeprefix(_TAG)
        if kind == "str":
            return node.value
        value = read_plain(node.value)
        if kind in _CORE_KINDS and isinstance(value.value if isinstance(value, Scalar) else value, _CORE_KINDS[kind]):
            return value
        return self._refuse_tag(node, path)

    def _restored(self, node: yaml.ScalarNode, path: tuple[str, ...]) -> str:
        try:
            return restored(node.value)
        except ValueError as error:
            self._problem(path, node, str(error))
            return ""

    def _refuse_tag(self, node: yaml.Node, path: tuple[str, ...]) -> Unresolved:
        tag = node.tag.replace(_TAG, "!!")
        self._problem(path, node, f"the tag {tag} is not allowed (no Python objects); write plain YAML")
        return Unresolved()

    def _mapping(self, node: yaml.MappingNode, path: tuple[str, ...]) -> dict[str, Any]:
        own: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            key = self._key(key_node, path)
            if key is None:
                continue
            where = (*path, key)
            if key in lines:
                self._problem(where, key_node, f"is given twice, first on line {lines[key]}; keep one")
            elif key == "<<" and key_node.tag == _PLAIN:
                merged = self._merge(value_node, path)
            else:
                own[key] = self.value(value_node, where)
            lines.setdefault(key, _line(key_node))
        return {**merged, **own}

    def _key(self, node: yaml.Node, path: tuple[str, ...]) -> str | None:
        """Return a key as it was written: 2024 and on are names here, not a number and a boolean."""
        if isinstance(node, yaml.ScalarNode) and node.tag in (_PLAIN, _TAG + "str"):
            return self._restored(node, path) if has_token(node.value) else str(node.value)
        self._problem(path, node, "a key must be plain text")
        return None

    def _merge(self, node: yaml.Node, path: tuple[str, ...]) -> dict[str, Any]:
        """Return the mappings of ``<<``, of which the first wins."""
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        merged: dict[str, Any] = {}
        for source in sources:
            value = self.value(source, path)
            if isinstance(value, dict):
                merged = {**value, **merged}
            else:
                self._problem((*path, "<<"), source, "merges something that is not a mapping")
        return merged

    def _problem(self, path: tuple[str, ...], node: yaml.Node, what: str) -> None:
        self.problems.append(Problem(dotted(path) or self.name, f"{what} ({self.name}, line {_line(node)})"))


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _at(name: str, mark: yaml.Mark | None) -> str:
    return name if mark is None else f"{name}, line {mark.line + 1}, column {mark.column + 1}"


def _reason(error: yaml.MarkedYAMLError) -> str:
    """Say what the parser says, without the excerpt of the file that it would print as well."""
    problem = error.problem or error.context or "not YAML"
    if problem.startswith("but "):
        problem = f"{error.context} {problem}"
    cure = "; indent with blanks, not tabs" if "'\\t'" in problem else ""
    return f"{problem}{cure}"
