"""One tree out of files, mappings and overrides, before anything is resolved."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from omegaconf import DictConfig, OmegaConf

from airflow_gym_provider.config.errors import Problem, as_unread
from airflow_gym_provider.config.roles import MARK, apply_roles
from airflow_gym_provider.config.tree import empty_config, merge_into, to_config
from airflow_gym_provider.config.yaml_source import read_text, read_yaml

if TYPE_CHECKING:
    from airflow_gym_provider.config.overrides import ParsedOverride

Part = str | os.PathLike[str] | Mapping[str, Any]
Source = Part | Sequence[Part]


def compose(source: Source, overrides: Sequence[str], problems: list[Problem]) -> DictConfig | None:
    """Merge the parts of ``source``, later over earlier, and apply the overrides, by role or by place.

    Returns None when nothing of the source could be read; what went wrong is in ``problems``.
    """
    parsed = _parsed(overrides, problems)
    by_role = [] if isinstance(overrides, str) else [text for text in map(str, overrides) if text.startswith(MARK)]
    parts = [_plain(part) for part in ([source] if isinstance(source, (str, os.PathLike, Mapping)) else source)]
    if not parts:
        problems.append(Problem("", "no config was given: name a file, a list of files or a mapping"))
        return None
    groups = [override for override in parsed if any(_is_group(part, override) for part in parts)]
    merged = empty_config()
    readable = False
    for number, part in enumerate(parts):
        mine = [override for override in groups if _belongs(override, parts, number)]
        before = len(problems)
        config = _read_part(part, mine, problems)
        if config is None:
            as_unread(problems, before)
            continue
        readable = True
        merge_into(merged, config, _called(part), problems)
    if not readable:
        return None
    if rest := [override for override in parsed if override not in groups]:
        from airflow_gym_provider.config.overrides import apply_overrides

        apply_overrides(merged, rest, problems)
    apply_roles(merged, by_role, problems)
    return merged


def _called(part: Part) -> str:
    return "the mapping that is given" if isinstance(part, Mapping) else Path(part).name


def _parsed(overrides: Sequence[str], problems: list[Problem]) -> list[ParsedOverride]:
    if isinstance(overrides, str):
        problems.append(Problem("overrides", "must be a list of overrides, not one text"))
        return []
    overrides = [text for text in overrides if not str(text).startswith(MARK)]
    if not overrides:
        return []
    # Hydra's parser takes a second to import, and most configs are loaded without overrides.
    from airflow_gym_provider.config.overrides import parse_overrides

    return parse_overrides(overrides, problems)


def _plain(part: Part) -> Part:
    """Return an OmegaConf mapping as a plain one, with its interpolations still unresolved."""
    return cast("Part", OmegaConf.to_container(part)) if isinstance(part, DictConfig) else part


def _read_part(part: Part, groups: Sequence[ParsedOverride], problems: list[Problem]) -> DictConfig | None:
    if isinstance(part, Mapping):
        if "defaults" in part:
            what = "a defaults list needs a file, beside which its fragments are found"
            problems.append(Problem("defaults", what, unread=True))
        return to_config({key: value for key, value in part.items() if key != "defaults"}, problems)
    if not isinstance(part, (str, os.PathLike)):
        problems.append(Problem("", f"a config is a path or a mapping, not a {type(part).__name__}"))
        return None
    path = Path(part).expanduser()
    tree = _read_file(path, problems)
    if tree is None:
        return None
    if "defaults" in tree or groups:
        from airflow_gym_provider.config.fragments import compose_fragments

        return compose_fragments(path, tree, groups, problems)
    return to_config(tree, problems)


def _read_file(path: Path, problems: list[Problem]) -> dict[str, Any] | None:
    text = read_text(path, str(path), problems)
    return None if text is None else read_yaml(text, path.name, problems)


def _is_group(part: Part, override: ParsedOverride) -> bool:
    """Return whether a folder of fragments beside the file has the override's name, as Hydra decides it."""
    if not isinstance(part, (str, os.PathLike)) or isinstance(override.hydra.value(), dict):
        return False
    key = Path(override.key)
    return not key.is_absolute() and (Path(part).expanduser().parent / key).is_dir()


def _belongs(override: ParsedOverride, parts: Sequence[Part], number: int) -> bool:
    """Of several files beside the same folder, the last one that lists the group takes an override of it."""
    candidates = [index for index, part in enumerate(parts) if _is_group(part, override)]
    listing = [index for index in candidates if _lists(parts[index], override.key)]
    return number == (listing or candidates or [-1])[-1]


def _lists(part: Part, group: str) -> bool:
    tree = _read_file(Path(str(part)).expanduser(), [])
    entries = tree.get("defaults") if tree else None
    keys = [str(key) for entry in entries or [] if isinstance(entry, dict) for key in entry]
    return any(key.split()[-1].split("@")[0].lstrip("/") == group for key in keys if key.split())
