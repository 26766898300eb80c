"""Small charts as SVG: a sparkline over runs, a chain's bars. Pure, and made of numbers only: nothing to escape.

Colours are the style sheet's (classes), so that they follow the page's mode; no `style` attributes, which a strict
content security policy refuses.
"""

from __future__ import annotations

from collections.abc import Sequence

from airflow_gym_provider.ui.chains import ChainView

_WIDTH, _HEIGHT, _EDGE = 160, 28, 3
_BAR, _GAP = 16, 8
_CHAIN_WIDTH = 1000


def sparkline(points: Sequence[tuple[float | None, str]]) -> str:
    """Values with their lights, oldest first, as a line with a dot at every run that is not green and at the last.

    A run without a value is a mark at the bottom.
    """
    if not points:
        return ""
    numbers = [value for value, _ in points if value is not None]
    low, high = min(numbers, default=0.0), max(numbers, default=1.0)
    step = (_WIDTH - 2 * _EDGE) / max(len(points) - 1, 1)

    def place(at: int, value: float | None) -> tuple[float, float]:
        # halves, for the difference of two floats may be infinite
        share = 0.0 if value is None else 0.5 if high == low else (value / 2 - low / 2) / (high / 2 - low / 2)
        return _EDGE + at * step, _HEIGHT - _EDGE - share * (_HEIGHT - 2 * _EDGE)

    line = " ".join(
        f"{x:.1f},{y:.1f}" for at, (value, _) in enumerate(points) if value is not None for x, y in [place(at, value)]
    )
    dots = [
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.2" class="dot {light}"/>'
        for at, (value, light) in enumerate(points)
        if light != "green" or at == len(points) - 1
        for x, y in [place(at, value)]
    ]
    return (
        f'<svg class="spark" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" aria-hidden="true">'
        f'<polyline points="{line}"/>{"".join(dots)}</svg>'
    )


def line_chart(points: Sequence[tuple[float | None, str]], width: int = 640, height: int = 180) -> str:
    """As `sparkline`, larger and with its bounds written beside it: for a report that has no script."""
    numbers = [value for value, _ in points if value is not None]
    if not numbers:
        return ""
    low, high = min(numbers), max(numbers)
    inner = sparkline(points).replace(' aria-hidden="true"', ' preserveAspectRatio="none"')
    inner = inner.replace(f'width="{_WIDTH}" height="{_HEIGHT}"', f'width="{width - 70}" height="{height}" x="60"')
    return (
        f'<svg class="chart" viewBox="0 0 {width} {height}" role="img" aria-label="from {low:.4g} to {high:.4g}">'
        f'<text x="0" y="14">{high:.4g}</text><text x="0" y="{height - 4}">{low:.4g}</text>{inner}</svg>'
    )


def chain_bars(view: ChainView, now: float) -> str:
    """One row for each job: the time in the queue hatched, the run time filled."""
    if not view.jobs:
        return ""
    first, last = view.window(now)
    scale = _CHAIN_WIDTH / (last - first)
    rows = []
    for at, job in enumerate(view.jobs):
        y = at * (_BAR + _GAP) + _GAP
        if job.submit is None and job.start is None:
            continue
        begin = job.submit if job.submit is not None else job.start or first
        waited = job.queued(now) or 0.0
        run_from = job.start if job.start is not None else begin + waited
        ran = job.running(now)
        rows.append(_rect((begin - first) * scale, y, waited * scale, "queue"))
        rows.append(_rect((run_from - first) * scale, y, ran * scale, f"run {job.light}"))
    height = len(view.jobs) * (_BAR + _GAP) + _GAP
    return (
        f'<svg class="bars" viewBox="0 0 {_CHAIN_WIDTH} {height}" preserveAspectRatio="none" height="{height}" '
        f'aria-hidden="true">{"".join(rows)}</svg>'
    )


def _rect(x: float, y: int, width: float, kind: str) -> str:
    if width <= 0:
        return ""
    return f'<rect x="{x:.1f}" y="{y}" width="{max(width, 2):.1f}" height="{_BAR}" class="{kind}"/>'
