"""What a wrong submit config raises, and what a wasteful one warns of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from airflow_gym_provider.config.brought_in import plain
from airflow_gym_provider.config.hiding import hide

# A shorter text is no secret worth hiding, and hiding it would garble messages.
_HIDE_FROM = 4


@dataclass(frozen=True)
class Problem:
    """One mistake: ``where`` is a dotted path (or a file, or an override), ``what`` names the value and the cure."""

    where: str
    what: str

    def __post_init__(self) -> None:
        # so that what is to be hidden in it is found there
        object.__setattr__(self, "where", plain(self.where))
        object.__setattr__(self, "what", plain(self.what))

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" if self.where else self.what


def without(values: Iterable[str], problem: Problem) -> Problem:
    """Return the problem with these values hidden: what an interpolation read may be a secret in the wrong place."""
    return Problem(problem.where, without_values(values, problem.what))


def without_values(values: Iterable[str], text: str) -> str:
    """Return the text of a message with these values hidden."""
    return hide(text, values, _HIDE_FROM, "…")


class SubmitConfigError(ValueError):
    """A submit config that cannot be used.

    ``problems`` holds EVERY problem found, not the first one. Texts never hold a value that was read from the
    environment, nor an ``env`` entry that lacks its prefix.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        # The list is the only argument, so that the exception survives pickling between processes.
        self.problems: list[Problem] = list(dict.fromkeys(problems))
        super().__init__(self.problems)

    def __str__(self) -> str:
        count = len(self.problems)
        head = "the submit config has 1 problem:" if count == 1 else f"the submit config has {count} problems:"
        return "\n".join([head, *(f"  - {problem}" for problem in self.problems)])


class SubmitConfigWarning(UserWarning):
    """Legal, but probably not what was wanted: GPUs that would idle, an option that undoes another."""
