"""Numbers and counts in words, for the sentences of the gate."""

from __future__ import annotations

from airflow_gym_provider.results.tasks import Comparison

__all__ = ["left_out", "number", "percent", "repeats"]


def number(value: float | None, *, sign: bool = False) -> str:
    """Four digits, such as 0.6125, -0.041 or 1.2e-05; with `sign` also +0.003."""
    if value is None:
        return "nothing"
    return f"{value:+.4g}" if sign else f"{value:.4g}"


def percent(share: float) -> str:
    """0.95 as "95 %"."""
    return f"{100 * share:g} %"


def left_out(found: Comparison) -> str:
    """Which tasks are not compared, as the end of a sentence; "" when all are."""
    if not found.left_out:
        return ""
    parts = [
        f"{count} {what}"
        for count, what in (
            (found.only_baseline, "only in the baseline"),
            (found.only_candidate, "only in this run"),
            (found.changed, "with another prompt"),
            (found.without_reward, "without a reward"),
        )
        if count
    ]
    return f"; {found.left_out} tasks are left out ({', '.join(parts)})"


def repeats(found: Comparison) -> str:
    """That the runs tried each task a different number of times, as the end of a sentence; "" when they did not."""
    old, new = found.repeats
    if abs(old - new) < 1e-9:
        return ""
    return f"; each task was tried {old:.3g} times in the baseline and {new:.3g} times in this run"
