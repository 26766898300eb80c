"""Overrides in Hydra's grammar, with Hydra's rules: bare changes, ``+`` adds, ``++`` forces, ``~`` deletes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, ListConfig, OmegaConf, open_dict
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

from airflow_gym_provider.config.brought_in import from_words, has_word, plain, with_names
from airflow_gym_provider.config.errors import Problem
from airflow_gym_provider.config.fields import kind_of
from airflow_gym_provider.config.scalars import Scalar, plain_value
from airflow_gym_provider.config.suggest import did_you_mean
from airflow_gym_provider.config.tree import clashes, clean

_PLACE_AND_VALUE = re.compile(r"[^:\s]+\.[^:\s]+(?=[:\s])")


@dataclass(frozen=True)
class ParsedOverride:
    """One override: ``where`` names it in messages without its value, which may be a secret."""

    where: str
    hydra: Override

    @property
    def key(self) -> str:
        """Return the dotted path, or the name of a config group."""
        return str(self.hydra.key_or_group)


def parse_overrides(texts: Sequence[str], problems: list[Problem]) -> list[ParsedOverride]:
    """Parse every override; those that are no override, or a sweep, are reported and left out."""
    parser = OverridesParser.create()
    parsed = []
    for text in texts:
        try:
            where = f"override {_place_in(plain(from_words(str(text))))!r}"
            key, sign, value = str(text).partition("=")
            key = with_names(key)
        except ValueError as error:
            problems.append(Problem("overrides", str(error)))
            continue
        if not key.lstrip("+~").strip():
            problems.append(Problem(where, "has no key; write key=value, +key=value, ++key=value or ~key"))
            continue
        if has_word(key):
            what = "in its key by a template" if sign else "by a template, with $, a backslash or host: in it"
            problems.append(Problem(where, f"is written {what}; write KEY={{{{ … }}}} or @policy.FIELD={{{{ … }}}}"))
            continue
        try:
            override = parser.parse_override(key + sign + value)
        except HydraException:
            cure = "write key=value, +key=value, ++key=value or ~key, and quote values as Hydra's grammar asks"
            problems.append(Problem(where, f"is not an override in Hydra's grammar; {cure}"))
            continue
        if override.is_sweep_override():
            problems.append(
                Problem(where, "is a sweep; a config takes one value: write a list in [ ] or quote the comma")
            )
        else:
            parsed.append(ParsedOverride(where, override))
    return parsed


def _place_in(text: str) -> str:
    """The part of an override in front of its value, also where another sign than ``=`` stands between them."""
    place = None if "=" in text else _PLACE_AND_VALUE.match(text)
    return place[0] if place else text.split("=", 1)[0]


def apply_overrides(config: DictConfig, overrides: Sequence[ParsedOverride], problems: list[Problem]) -> None:
    """Apply overrides in order, in place. Each that cannot be applied is reported; the others still are."""
    OmegaConf.set_struct(config, True)
    for override in overrides:
        try:
            fault = _apply(config, override, problems)
        except OmegaConfBaseException as error:
            fault = f"cannot be applied: {str(error).splitlines()[0]}; {_cure(config, override, error)}"
        if fault:
            # What would be changed, deleted or chosen may be in a part that could not be read.
            absent = not (override.hydra.is_add() or override.hydra.is_force_add())
            problems.append(Problem(override.where, fault, absent=absent))
    OmegaConf.set_struct(config, False)


def _cure(config: DictConfig, override: ParsedOverride, error: OmegaConfBaseException) -> str:
    key = override.key
    if isinstance(error, ConfigAttributeError | ConfigKeyError) and (missing := str(error.full_key or "")):
        head, _, last = missing.rpartition(".")
        parent = OmegaConf.select(config, head) if head else config
        guess = did_you_mean(last, map(str, parent.keys())) if isinstance(parent, DictConfig) else ""
        return f"key=value changes what is there{guess}; {_to_add(missing, f' or ++{key}=...')}"
    held = OmegaConf.select(config, key, throw_on_missing=False, throw_on_resolution_failure=False)
    held = OmegaConf.to_container(held) if isinstance(held, DictConfig | ListConfig) else held
    for path, before, after in clashes(held, override.hydra.value()):
        place = ".".join((key, *path))
        what = f"{place} is {kind_of(before)} in the config and {kind_of(after)} here"
        return f"{what}: give the same kind, or take it out with ~{place} and then add it with +{place}=..."
    return f"give what fits there, or take it out with ~{key} and then add it with +{key}=..."


def _apply(config: DictConfig, override: ParsedOverride, problems: list[Problem]) -> str | None:
    hydra, key = override.hydra, override.key
    if hydra.package is not None or "/" in key:
        return f"looks like a config group, but there is no folder {key!r} beside the config file"
    if hydra.is_delete():
        return _delete(config, key, hydra.value())
    value = _value_of(override, problems)
    if hydra.is_add() or hydra.is_force_add():
        if key.startswith("_"):
            return "would add a scratch key, which nothing reads; change an existing one with key=value"
        if hydra.is_add() and _exists(config, key) and not isinstance(value, (dict, list)):
            return f"{key} exists already; write {key}=... to change it, or ++{key}=... to set it either way"
        OmegaConf.update(config, key, value, merge=True, force_add=True)
        return None
    return _change(config, key, value)


def _change(config: DictConfig, key: str, value: Any) -> str | None:
    parent, last = _parent(config, key)
    if isinstance(parent, DictConfig) and last not in parent.keys():  # noqa: SIM118 - `in` would resolve the value
        return f"{key} does not exist{did_you_mean(last, map(str, parent.keys()))}; {_to_add(key)}"
    if not isinstance(parent, (DictConfig, ListConfig)):
        return f"{key} does not exist{_guess(config, key)}; {_to_add(key)}"
    OmegaConf.update(config, key, value, merge=True)
    return None


def _to_add(key: str, also: str = "") -> str:
    if key.startswith("_"):
        return "a scratch key cannot be added, since nothing would read it: change one that is in the file"
    return f"to add it, write +{key}=...{also}"


def _guess(config: DictConfig, key: str) -> str:
    """What the first part of a path that is not there could have been meant to be."""
    held = OmegaConf.to_container(config)
    for part in key.split("."):
        if not isinstance(held, dict):
            break
        if part not in held:
            return did_you_mean(part, map(str, held))
        held = held[part]
    return ""


def _delete(config: DictConfig, key: str, value: Any) -> str | None:
    parent, last = _parent(config, key)
    if isinstance(parent, DictConfig) and last in parent.keys():  # noqa: SIM118 - as above
        if value is not None and not _same(parent, last, value):
            return f"{key} has another value, so it is not deleted"
        with open_dict(config):
            del parent[last]
        return None
    if isinstance(parent, ListConfig) and last.isdigit() and int(last) < len(parent):
        del parent[int(last)]
        return None
    known = map(str, parent.keys()) if isinstance(parent, DictConfig) else ()
    return f"{key} does not exist, so it cannot be deleted{did_you_mean(last, known)}"


def _parent(config: DictConfig, key: str) -> tuple[Any, str]:
    head, _, last = key.rpartition(".")
    if not head:
        return config, last
    return OmegaConf.select(config, head, throw_on_missing=False, throw_on_resolution_failure=False), last


def _exists(config: DictConfig, key: str) -> bool:
    """Return whether a key is there with a value, without resolving it: a null counts as absent, as in Hydra."""
    parent, last = _parent(config, key)
    if not isinstance(parent, DictConfig):
        return isinstance(parent, ListConfig) and last.isdigit() and int(last) < len(parent)
    held = OmegaConf.to_container(parent)
    return isinstance(held, dict) and held.get(last) is not None


def _same(parent: DictConfig, last: str, value: Any) -> bool:
    held = OmegaConf.to_container(parent)[last]  # type: ignore[index,call-overload]
    return bool(plain_value(held) == value or (isinstance(held, Scalar) and held.text == str(value)))


def _value_of(override: ParsedOverride, problems: list[Problem]) -> Any:
    """Return the value as a config holds it: numbers keep their spelling, interpolations stay unresolved."""
    value: Any = override.hydra.value()
    text = str(override.hydra.input_line).split("=", 1)[-1].strip()
    if isinstance(value, (bool, int, float)) and (isinstance(value, float) or str(value) != text):
        value = Scalar(text, value)
    return clean(_read(value), problems, tuple(override.key.split(".")))


def _read(value: Any) -> Any:
    """The value with what a template has brought into it."""
    if isinstance(value, str):
        return from_words(value)
    if isinstance(value, dict):
        return {from_words(str(key)): _read(item) for key, item in value.items()}
    return [_read(item) for item in value] if isinstance(value, list) else value
