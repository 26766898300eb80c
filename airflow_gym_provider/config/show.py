"""The config as it may be stored and shown, and as it can be submitted again."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import yaml

from airflow_gym_provider.config.scalars import read_plain

_OPENING = re.compile(r"(?<!\\)(\\*)\$\{")


def escape(text: str) -> str:
    r"""Spell a literal text so that composition gives it back: ``${`` becomes ``\${``."""
    return _OPENING.sub(lambda match: match[1] * 2 + "\\${", text)


def shown_config(
    dump: Mapping[str, Any], references: Mapping[tuple[str, ...], str], policy: Mapping[str, str]
) -> dict[str, Any]:
    """Make a dumped config showable; ``references`` gives, by path, the texts to show for what the environment held.

    ``policy``: the keys that every ``run`` is given.
    """
    tree: dict[str, Any] = each_text(dict(dump), escape)
    for path, text in references.items():
        _put(tree, path, text)
    # The driver resolves these two, so composition leaves them alone: they are shown as they are.
    tree["driver"]["policy_host"] = dump["driver"]["policy_host"]
    if policy:
        for benchmark in tree["driver"]["benchmarks"].values():
            if benchmark["command"] is None:
                escaped = {key: escape(text) for key, text in policy.items()}
                benchmark["run"] |= escaped | {"policy_base_url": policy["policy_base_url"]}
    return tree


def to_yaml(tree: dict[str, Any]) -> str:
    """Write a resolved config as YAML; texts that would read as something else are quoted."""
    return yaml.dump(tree, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


class _Dumper(yaml.SafeDumper):
    """Quotes what this room's loader, or OmegaConf's, would not read back as the same text."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    plain = isinstance(read_plain(text), str) and text.isprintable()
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if plain else '"')


_Dumper.add_representer(str, _represent_text)


def each_text(value: Any, change: Callable[[str], str]) -> Any:
    """Return a tree in which ``change`` has been applied to every text; keys stay."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: each_text(item, change) for key, item in value.items()}
    return [each_text(item, change) for item in value] if isinstance(value, list) else value


def _put(tree: Any, path: tuple[str, ...], text: str) -> None:
    """Replace one leaf, if the path (still) leads to one."""
    for key in path[:-1]:
        tree = _child(tree, key)
    last = path[-1]
    if isinstance(tree, dict) and isinstance(tree.get(last), str):
        tree[last] = text
    elif isinstance(tree, list) and last.isdigit() and int(last) < len(tree):
        tree[int(last)] = text


def _child(tree: Any, key: str) -> Any:
    if isinstance(tree, list):
        return tree[int(key)] if key.isdigit() and int(key) < len(tree) else None
    return tree.get(key) if isinstance(tree, dict) else None
