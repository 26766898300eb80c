"""How sure a difference between two runs is, over the tasks that both have.

The same task is asked in both runs, so the differences are tested, not two independent samples: what makes tasks hard
or easy drops out. NumPy and SciPy are imported when a test is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["Correction", "PairedTest", "chance_of", "corrected", "least_chance", "paired_test"]

Correction = Literal["holm", "benjamini-hochberg", "none"]
RESAMPLES = 9999
"""Of the bootstrap. The p value is counted, not sampled: it has no floor that a correction could lift over alpha."""
_LARGE = 4000
"""Pairs from which on a mean is as good as normal, and counting and resampling only cost time."""
_AT_ONCE = 2_000_000
_CELLS = 100_000
"""Steps that all differences together may have: the memory of a count in numbers, and with the pairs its time."""
_PARTS = 240
"""Fractions that are tried as the common step of all differences: rewards are mostly n of m."""


@dataclass(frozen=True)
class PairedTest:
    """`mean` of the differences with its interval `low` to `high` at `confidence`.

    `p`: how often a difference this low would come about by chance if the true mean were exactly the tolerated drop.
    """

    n: int
    mean: float
    low: float
    high: float
    p: float
    confidence: float = 0.95


def paired_test(
    differences: Sequence[float], tolerated: float = 0.0, *, confidence: float = 0.95, seed: int = 0
) -> PairedTest:
    """Test whether the mean of `differences` (better minus worse: below 0 is a drop) is below -`tolerated`.

    One-sided. `p` is that of the sign-flip permutation test of the mean (`chance_of`), the interval is from the
    percentile bootstrap; from 4000 pairs on both are Student's. The same numbers in the same order and the same
    `seed` give the same answer. Raises ValueError without two finite differences.
    """
    import numpy
    from scipy import stats

    values = numpy.asarray(differences, dtype=float)
    if values.size < 2 or not numpy.isfinite(values).all():
        raise ValueError("a paired test needs at least two differences, all of them finite")
    mean = float(values.mean())
    p = chance_of(values + tolerated)
    if numpy.ptp(values) == 0:  # no spread, nothing to resample: all tasks moved alike
        return PairedTest(values.size, mean, mean, mean, p, confidence)
    if values.size >= _LARGE:
        interval = stats.ttest_1samp(values, 0).confidence_interval(confidence)
        return PairedTest(values.size, mean, float(interval.low), float(interval.high), p, confidence)
    low, high = _bootstrap(values, confidence, seed)
    return PairedTest(values.size, mean, low, high, p, confidence)


def chance_of(differences: Any) -> float:
    """How often differences with the same sizes and signs by chance have a sum as low as these, 0 to 1.

    All sign patterns are counted, not a sample of them: the result is exact where all differences are multiples of one
    fraction (down to 1/240), and otherwise the exact test of differences that were rounded to a step that is small
    beside their sum (a test of rounded differences alarms no more often than alpha says, either). The least is
    `least_chance`. From 4000 differences on it is Student's.
    """
    import numpy
    from scipy import stats

    values = numpy.asarray(differences, dtype=float)
    if numpy.ptp(values) == 0:  # all moved alike, which has no spread to measure by
        return least_chance(values.size) if values[0] < 0 else 1.0
    if values.size >= _LARGE:
        return float(stats.ttest_1samp(values, 0, alternative="less").pvalue)
    moved = values[values != 0]
    steps = numpy.rint(moved / _step(moved)).astype(numpy.int64)
    # a pattern's sum is twice what goes up in it, minus the sum of all sizes: to count what goes up is enough
    up, down = int(steps[steps > 0].sum()), int(-steps[steps < 0].sum())
    sizes = numpy.sort(numpy.abs(steps))
    return _below(sizes, up) if up < down else 1.0 - _below(sizes, down - 1)


def least_chance(size: int) -> float:
    """The smallest p that so many tasks can have: that of the one sign pattern in which all of them fell."""
    return float(0.5**size)


def _step(moved: Any) -> float:
    """A step of which all these differences are multiples, or one that is small beside their sum."""
    import numpy

    sizes = numpy.abs(moved)
    total = float(sizes.sum())
    for parts in range(1, _PARTS + 1):
        if total * parts > _CELLS:
            break
        found = sizes * parts
        if found.min() > 0.5 and numpy.abs(found - numpy.rint(found)).max() < 1e-6:
            return 1 / parts
    return total / _CELLS


def _below(sizes: Any, most: int) -> float:
    """The chance that those of `sizes` (ascending whole numbers) which a fair coin picks sum up to `most` or less."""
    import numpy

    if most < 0:
        return 0.0
    chance = numpy.zeros(most + 1)
    chance[0], reach = 1.0, 1
    for size in sizes.tolist():
        if size == 0:
            continue
        chance[:reach] *= 0.5
        last = min(reach + size, most + 1)
        if last > size:
            chance[size:last] += chance[: last - size].copy()
        reach = last
    return min(1.0, float(chance.sum()))


def _bootstrap(values: Any, confidence: float, seed: int) -> tuple[float, float]:
    import numpy
    from scipy import stats

    found = stats.bootstrap(
        (values,), numpy.mean, confidence_level=confidence, method="percentile", **_resampling(values.size, seed)
    )
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


def _resampling(size: int, seed: int) -> dict[str, Any]:
    import numpy

    batch = max(1, _AT_ONCE // size)
    return {"n_resamples": RESAMPLES, "batch": batch, "vectorized": True, "rng": numpy.random.default_rng(seed)}


def corrected(values: Sequence[float], correction: Correction) -> list[float]:
    """P values, in their order, corrected for their number.

    `holm` bounds the chance of any false alarm, `benjamini-hochberg` the share of false ones among the alarms.
    """
    if correction == "none" or len(values) < 2:
        return list(values)
    if correction == "benjamini-hochberg":
        from scipy import stats

        return [float(value) for value in stats.false_discovery_control(values)]
    adjusted = [0.0] * len(values)
    largest = 0.0
    for rank, at in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        largest = max(largest, min(1.0, (len(values) - rank) * values[at]))
        adjusted[at] = largest
    return adjusted
