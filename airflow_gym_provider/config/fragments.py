"""Files that bring settings in through a Hydra ``defaults:`` list: config groups in folders beside the config file.

Hydra itself works out which fragments apply, in which order and under which key, so this behaves as the ``gym`` command
line does; the fragments are read as strictly as the config itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from hydra._internal.config_repository import ConfigRepository
from hydra._internal.defaults_list import DefaultsList, create_defaults_list
from hydra.core.default_element import ResultDefault
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from hydra.plugins.config_source import ConfigLoadError, ConfigResult, ConfigSource
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from airflow_gym_provider.config.brought_in import from_words, has_word, is_marked, parts_brought_in, plain, with_names
from airflow_gym_provider.config.errors import Problem, as_unread
from airflow_gym_provider.config.overrides import ParsedOverride
from airflow_gym_provider.config.scalars import Scalar, Unresolved
from airflow_gym_provider.config.tree import ENV_RESOLVER, REQUIRED_SECTIONS, empty_config, merge_into, to_config
from airflow_gym_provider.config.yaml_source import read_text, read_yaml

_SUFFIXES = (".yaml", ".yml")


def compose_fragments(
    path: Path, tree: dict[str, Any], overrides: Sequence[ParsedOverride], problems: list[Problem]
) -> DictConfig:
    """Merge a file with the fragments of its ``defaults:`` list; ``overrides`` may pick other ones.

    Problems are appended; what could be merged is returned.
    """
    overrides = [override for override in overrides if _stays(override, problems)]
    source = _Fragments(path, tree, problems)
    before = len(problems)
    repository = _Repository(source)
    try:
        plan = _plan(repository, path.stem, overrides)
        return _merge(repository, plan.defaults, problems)
    except _Unreadable:
        pass  # its reason is among the problems already
    except RecursionError:
        problems.append(Problem("defaults", f"a fragment brings in itself ({path.name})"))
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        problems.append(Problem("defaults", f"{_reason(error)} ({path.name})"))
    as_unread(problems, before)
    # A section that is not in the file may well be in what could not be merged, so none is called missing.
    own = {key: value for key, value in tree.items() if key != "defaults"}
    return to_config({**dict.fromkeys(REQUIRED_SECTIONS, Unresolved()), **own}, [])


def _stays(override: ParsedOverride, problems: list[Problem]) -> bool:
    """Whether an override picks fragments of its group's folder: its value may come from a form, and the worker's other
    files are nobody's business there.
    """
    value = override.hydra.value()
    chosen = [with_names(str(item)) for item in (value if isinstance(value, list) else [value])]
    if written := next(filter(has_word, chosen), None):
        problems.append(Problem(override.where, f"{plain(from_words(written))!r} is no name of a fragment"))
        return False
    if not any(name.startswith(("/", "~")) or ".." in name.split("/") for name in chosen):
        return True
    problems.append(Problem(override.where, f"leads out of the folder {override.key!r}; name a fragment that is in it"))
    return False


def _reason(error: Exception) -> str:
    """Return Hydra's message on one line, without the search path that follows it."""
    lines = [line.strip() for line in str(error).split("Config search path:")[0].splitlines()]
    return " ".join(line for line in lines if line).replace(ENV_RESOLVER, "oc.env")


def _plan(repository: ConfigRepository, name: str, overrides: Sequence[ParsedOverride]) -> DefaultsList:
    return create_defaults_list(
        repo=repository,
        config_name=name,
        overrides_list=[_with_names(override.hydra) for override in overrides],
        prepend_hydra=False,
        skip_missing=False,
    )


def _with_names(override: Override) -> Override:
    value = override.value()
    if isinstance(value, str):
        return replace(override, _value=with_names(value))
    if isinstance(value, list):
        return replace(override, _value=[with_names(name) if isinstance(name, str) else name for name in value])
    return override


def _merge(repository: ConfigRepository, defaults: Sequence[ResultDefault], problems: list[Problem]) -> DictConfig:
    config = empty_config()
    for default in defaults:
        loaded = repository.load_config(str(default.config_path))
        if loaded is None:  # an optional fragment that is not there
            continue
        package = default.package if default.package is not None else loaded.header["package"]
        part = cast(DictConfig, loaded.config)  # as `_Fragments` makes them
        if package:
            part = empty_config()
            OmegaConf.update(part, package, loaded.config, merge=False)
        merge_into(config, part, f"{default.config_path}.yaml", problems)
    return config


class _Unreadable(Exception):
    """A fragment has problems of its own, which are already listed."""


class _Fragments(ConfigSource):
    """The folder of the config file, as a Hydra config source; the file itself is already parsed."""

    def __init__(self, path: Path, tree: dict[str, Any], problems: list[Problem]) -> None:
        super().__init__(provider="submit", path=f"file://{path.parent}")
        self.folder = path.parent
        self.primary = path.stem
        self.tree = tree
        self.problems = problems
        self.cache: dict[str, tuple[dict[str, Any], str]] = {}

    @staticmethod
    def scheme() -> str:
        return "file"

    def load_config(self, config_path: str) -> ConfigResult:
        """Read one fragment strictly. A fresh copy each time, as Hydra takes the defaults list out of it."""
        tree, text = self._read(config_path)
        if isinstance(tree.get("defaults"), list):
            tree = {**tree, "defaults": [_spelled(item) for item in tree["defaults"]]}
            if config_path == self.primary and "_self_" not in tree["defaults"]:
                tree["defaults"].append("_self_")  # where Hydra puts it, without the warning
        header = self._get_header_dict(text)
        return ConfigResult(
            provider=self.provider, path=self.path, config=to_config(tree, self.problems), header=header
        )

    def _read(self, config_path: str) -> tuple[dict[str, Any], str]:
        if config_path == self.primary:
            return self.tree, ""
        if config_path not in self.cache:
            file = self._file(config_path)
            if file is None:
                raise ConfigLoadError(f"no fragment {config_path!r}")
            name = str(file.relative_to(self.folder))
            text = read_text(file, name, self.problems)
            tree = read_yaml(text, name, self.problems) if text is not None else None
            if text is None or tree is None:
                raise _Unreadable
            self.cache[config_path] = tree, text
        return self.cache[config_path]

    def _file(self, config_path: str) -> Path | None:
        names = [config_path] if config_path.endswith(_SUFFIXES) else [f"{config_path}{end}" for end in _SUFFIXES]
        return next(
            (self.folder / name for name in names if self._is_inside(name) and (self.folder / name).is_file()), None
        )

    def _is_inside(self, config_path: str) -> bool:
        """A name may come from a form; Hydra itself finds none of the others."""
        return ".." not in Path(config_path).parts and not Path(config_path).is_absolute()

    def is_group(self, config_path: str) -> bool:
        return self._is_inside(config_path) and (self.folder / config_path).is_dir()

    def is_config(self, config_path: str) -> bool:
        return config_path == self.primary or self._file(config_path) is not None

    def available(self) -> bool:
        return True

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        files = (self.folder / config_path).iterdir()
        return sorted(file.stem for file in files if file.suffix in _SUFFIXES)


class _Repository(ConfigRepository):
    """Hydra's repository over that one source."""

    def __init__(self, source: ConfigSource) -> None:
        self.sources = [source]


def _spelled(item: Any) -> Any:
    """Return an entry of a defaults list with names as they were written. Raises ValueError where a template brings
    more than a name into one: Hydra would resolve an interpolation, and move the fragment to another package.
    """
    if isinstance(item, dict):
        return {_spelled(key): _spelled(value) for key, value in item.items()}
    if isinstance(item, list):
        return [_spelled(value) for value in item]
    if not isinstance(item, str):
        return item.text if isinstance(item, Scalar) else item
    name = plain(item)
    if any(sign in part for part in parts_brought_in(item) for sign in "${}@:") or (
        is_marked(item) and name.startswith("/")
    ):
        raise ValueError(f"a template brings {name!r} into the defaults list, which is no name of a fragment")
    return name
