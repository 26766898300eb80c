"""How sure a difference between two runs is, over the tasks that both have. SciPy does the statistics.

The same task is asked in both runs, so the differences are tested, not two independent samples: what makes tasks hard
or easy drops out. SciPy is imported when a test is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["Correction", "PairedTest", "corrected", "paired_test"]

Correction = Literal["holm", "benjamini-hochberg", "none"]
RESAMPLES = 9999
_LARGE = 4000
"""Pairs from which on a mean is as good as normal, and resampling only costs time."""
_AT_ONCE = 2_000_000


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

    One-sided. `p` is from the sign-flip permutation test of the mean (exact for up to 13 pairs), the interval from the
    percentile bootstrap; from 4000 pairs on both are Student's. The same numbers in the same order and the same
    `seed` give the same answer. Raises ValueError without two finite differences.
    """
    import numpy
    from scipy import stats

    values = numpy.asarray(differences, dtype=float)
    if values.size < 2 or not numpy.isfinite(values).all():
        raise ValueError("a paired test needs at least two differences, all of them finite")
    mean = float(values.mean())
    shifted = values + tolerated
    if numpy.ptp(values) == 0:  # no spread, nothing to resample: all tasks moved alike
        p = 1.0 if shifted[0] >= 0 else 0.5**values.size
        return PairedTest(values.size, mean, mean, mean, p, confidence)
    if values.size >= _LARGE:
        found = stats.ttest_1samp(values, -tolerated, alternative="less")
        interval = stats.ttest_1samp(values, 0).confidence_interval(confidence)
        return PairedTest(values.size, mean, float(interval.low), float(interval.high), float(found.pvalue), confidence)
    low, high = _bootstrap(values, confidence, seed)
    return PairedTest(values.size, mean, low, high, _sign_flip(shifted, seed), confidence)


def _sign_flip(values: Any, seed: int) -> float:
    import numpy
    from scipy import stats

    found = stats.permutation_test(
        (values,), numpy.mean, permutation_type="samples", alternative="less", **_resampling(values.size, seed)
    )
    return float(found.pvalue)


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
