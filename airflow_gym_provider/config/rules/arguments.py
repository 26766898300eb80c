"""Credentials that would stand among a program's arguments, which every account on a node can read."""

from __future__ import annotations

import re
from collections.abc import Mapping

from airflow_gym_provider.config.errors import Problem
from airflow_gym_provider.config.hiding import CREDENTIAL

_REFERENCE = re.compile(r"\$\{oc\.env:([A-Za-z_][A-Za-z0-9_]*)")
_SHELL_TEXT = ("command", "pre_command")
_GYMS = ("run", "prepare")


def argument_warnings(references: Mapping[tuple[str, ...], str]) -> list[Problem]:
    """Warn of texts that hold a credential and are handed to a program as an argument.

    ``references``: by path, the texts as they are shown, with a reference in the place of each value. What goes the
    ways of ``env`` and of shell text reaches its program on standard input; the collector has a file of its own.
    """
    found = []
    for path, text in references.items():
        names = [name for name in dict.fromkeys(_REFERENCE.findall(text)) if CREDENTIAL.search(name)]
        if names and "env" not in path[1:-1] and path[-1] not in _SHELL_TEXT and path[0] != "otel":
            found.append(Problem(".".join(path), f"{_seen(names)}; {_cure(path, names[0])}"))
    return found


def _seen(names: list[str]) -> str:
    return f"what is read from {' and '.join(names)} is seen by every account on the nodes, in a program's arguments"


def _cure(path: tuple[str, ...], name: str) -> str:
    if path[:2] == ("driver", "benchmarks") and path[3:4] and path[3] in _GYMS:
        return (
            rf"write \${{oc.env:{name}}}, which gym itself reads, and give it that with driver.env.{name}: host:{name}"
        )
    return f"if the program reads it from its environment, write {name}: host:{name} into the env of that place"
