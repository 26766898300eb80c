"""What a wrong submit config raises, and what a wasteful one warns of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace

from airflow_gym_provider.config.brought_in import plain
from airflow_gym_provider.config.hiding import NOT_SHOWN, hide, name_to_show

# A shorter text is no secret worth hiding, and hiding it would garble messages.
_HIDE_FROM = 4


@dataclass(frozen=True)
class Problem:
    """One mistake: ``where`` is a dotted path (or a file, or an override), ``what`` names the value and the cure.

    ``unset``: the variable of the environment for want of which it is one, if it is; ``what`` may have to keep silent
    about that. ``unread``: a part of the config could not be read or merged. ``absent``: something is not there, which
    an unread part may hold; see ``certain``.
    """

    where: str
    what: str
    unset: str | None = field(default=None, repr=False)
    unread: bool = field(default=False, repr=False, compare=False)
    absent: bool = field(default=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # so that what is to be hidden in it is found there
        object.__setattr__(self, "where", plain(self.where))
        object.__setattr__(self, "what", plain(self.what))

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" if self.where else self.what


def dotted(path: Sequence[str]) -> str:
    """Return a path as it is shown: without what stands as a variable's name in ``env`` and is none, since
    ``HF_TOKEN:hf_…`` merely lacks a blank.
    """
    return ".".join(
        name_to_show(key) or f"({NOT_SHOWN})" if before == "env" and not _is_variable(key) else key
        for before, key in zip(("", *path), path, strict=False)
    )


def _is_variable(key: str) -> bool:
    return key.isascii() and key.isidentifier()


def without(values: Iterable[str], problem: Problem) -> Problem:
    """Return the problem with these values hidden: what an interpolation read may be a secret in the wrong place."""
    return replace(problem, what=without_values(values, problem.what))


def without_values(values: Iterable[str], text: str) -> str:
    """Return the text of a message with these values hidden."""
    return hide(text, values, _HIDE_FROM, "…")


def certain(problems: Iterable[Problem]) -> list[Problem]:
    """Return the problems without those that may only be there because a part of the config could not be read."""
    found = list(problems)
    unread = any(problem.unread for problem in found)
    return [problem for problem in found if not (unread and problem.absent)]


def as_unread(problems: list[Problem], since: int) -> None:
    """Mark the problems from a position on, in place, as reasons why a part of the config could not be read."""
    problems[since:] = [replace(problem, unread=True) for problem in problems[since:]]


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


@contextmanager
def gathering() -> Iterator[Callable[[], AbstractContextManager[None]]]:
    """Gather the problems of parts that do not need each other, each in a ``with part():`` of its own.

    Raises SubmitConfigError with all of them at the end. What a part was to make is there after that end only.
    """
    problems: list[Problem] = []

    @contextmanager
    def part() -> Iterator[None]:
        try:
            yield
        except SubmitConfigError as error:
            problems.extend(error.problems)

    with part():
        yield part
    if problems:
        raise SubmitConfigError(problems)


class SubmitConfigWarning(UserWarning):
    """Legal, but probably not what was wanted: GPUs that would idle, an option that undoes another."""
