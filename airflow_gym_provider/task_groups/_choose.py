"""Which benchmarks of a config are wanted: names and patterns, as people write them in DAGs and forms."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any

from airflow_gym_provider.config.suggest import did_you_mean

NOT = "!"


class ChoiceError(ValueError):
    """Patterns that choose nothing; one line for each."""


def read_patterns(wanted: Any) -> list[str]:
    """Patterns out of what a DAG, a template or a form gives: None, a text such as `gpqa, mmlu*`, or a list of texts.

    A list that a template has turned into text ("['gpqa', 'aime25']") is read as the list that it was.
    """
    if isinstance(wanted, str):
        text = wanted.strip()
        if text in ("", "None", "null"):
            return []
        if text.startswith("["):
            try:
                found = ast.literal_eval(text)
            except (SyntaxError, ValueError):
                raise ChoiceError(f"benchmarks: {text!r} is no list of names") from None
            return read_patterns(found)
        return [pattern for part in text.split(",") if (pattern := part.strip())]
    if wanted is None:
        return []
    if not isinstance(wanted, Iterable):
        raise ChoiceError(f"benchmarks: {wanted!r} is no name and no list of names")
    items = [str(item) for item in wanted]
    if not items:  # a task that chose none did not ask for all of them
        raise ChoiceError("benchmarks: an empty list chooses none; leave it out, or give None, for all")
    return [pattern for item in items for pattern in _item(item)]


def _item(text: str) -> list[str]:
    """One of several: a pattern may begin with a bracket, as "[gm]*" does."""
    try:
        return read_patterns(text)
    except ChoiceError:
        return [pattern for part in text.split(",") if (pattern := part.strip())]


def choose(names: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """The names, in the config's order, that a pattern matches and none with a ! before it; all when there is none.

    Patterns are those of a shell: `*`, `?` and `[ab]`. Raises ChoiceError naming every pattern that matches nothing,
    and when nothing is left.
    """
    wanted = [pattern for pattern in patterns if not pattern.startswith(NOT)]
    unwanted = [pattern.removeprefix(NOT) for pattern in patterns if pattern.startswith(NOT)]
    if idle := [pattern for pattern in (*wanted, *unwanted) if not _matching(names, pattern)]:
        known = f"driver.benchmarks has {', '.join(names)}"
        raise ChoiceError(
            "\n".join(f"benchmarks: {pattern!r} matches none{did_you_mean(pattern, names)}" for pattern in idle)
            + f"\n{known}"
        )
    dropped = {name for pattern in unwanted for name in _matching(names, pattern)}
    kept = {name for pattern in wanted or ["*"] for name in _matching(names, pattern)} - dropped
    if not kept:
        raise ChoiceError(f"benchmarks: {', '.join(patterns)} leaves none of {', '.join(names)}")
    return [name for name in names if name in kept]


def _matching(names: Iterable[str], pattern: str) -> list[str]:
    return [name for name in names if fnmatchcase(name, pattern)]
