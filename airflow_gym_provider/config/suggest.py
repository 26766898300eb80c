"""The guess behind "did you mean"."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?``, or nothing when no known word is near."""
    by_lower = {name.lower(): name for name in known}
    # A known word inside it ("container_mounts") says more than letters in common ("container" does, "mounts" too).
    parts = [name for name in by_lower if len(name) > 3 and word.lower().endswith(f"_{name}")]
    near = parts or difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.67)
    return f"; did you mean {by_lower[near[0]]!r}?" if near else ""


def one_of(known: Iterable[str]) -> str:
    """Return names as a list for people: ``a, b or c``; ``(none)`` when there are none."""
    names = sorted(known)
    if len(names) > 1:
        return f"{', '.join(names[:-1])} or {names[-1]}"
    return names[0] if names else "(none)"
