"""How sure we are: intervals, paired comparisons, and which rows cannot be told from the best. No torch, no pandas."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

CONFIDENCE = 0.95
LEVEL = 0.05
STRONG_EXCESS, WEAK_EXCESS = 0.05, 0.5  # of a loss over the smallest: what costs little, and what is clearly worse
_RESAMPLES = 9999

Seeds = Mapping[Any, float]  # seed -> value


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over `n` values and its interval; a single value has none."""

    mean: float
    low: float | None
    high: float | None
    n: int

    @property
    def bounds(self) -> tuple[float, float] | None:
        """(low, high), or None where there is no interval."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    def excludes(self, value: float) -> bool:
        """Whether there is an interval and `value` lies outside it."""
        return self.bounds is not None and not self.bounds[0] <= value <= self.bounds[1]


def mean_interval(values: ArrayLike, confidence: float = CONFIDENCE) -> Estimate:
    """Mean and two-sided Student-t interval: mean +- t_{n-1} s / sqrt(n). Raises ValueError without values."""
    sample = _sample(values, at_least=1)
    n, mean = len(sample), float(sample.mean())
    if n == 1:
        return Estimate(mean, None, None, 1)
    half = float(stats.t.ppf((1 + confidence) / 2, n - 1)) * float(sample.std(ddof=1)) / math.sqrt(n)
    return Estimate(mean, mean - half, mean + half, n)


def paired_difference(a: Seeds, b: Seeds, confidence: float = CONFIDENCE) -> Estimate | None:
    """Interval of the mean of a - b over the seeds that both have; None where they share none."""
    differences = _differences(a, b)
    return mean_interval(differences, confidence) if differences else None


def paired_p_value(a: Seeds, b: Seeds) -> float | None:
    """Two-sided paired t-test over the shared seeds; None with fewer than two of them."""
    differences = _differences(a, b)
    if len(differences) < 2:
        return None
    mean, spread = float(np.mean(differences)), float(np.std(differences, ddof=1))
    if spread == 0:  # every seed shows the same difference
        return 1.0 if mean == 0 else 0.0
    n = len(differences)
    return float(2 * stats.t.sf(abs(mean) / (spread / math.sqrt(n)), n - 1))


def median_interval(values: ArrayLike, confidence: float = CONFIDENCE, seed: int = 0) -> tuple[float, float, float]:
    """Median and its percentile bootstrap interval (Efron 1979): (median, low, high).

    Raises:
        ValueError: with fewer than two values, of which no interval can be had.
    """
    sample = _sample(values, at_least=2)
    drawn = np.random.default_rng(seed).integers(len(sample), size=(_RESAMPLES, len(sample)))
    tail = (1 - confidence) / 2
    low, high = np.quantile(np.median(sample[drawn], axis=1), [tail, 1 - tail])
    return float(np.median(sample)), float(low), float(high)


def paired_ratio(
    a: ArrayLike, b: ArrayLike, confidence: float = CONFIDENCE, seed: int = 0
) -> tuple[float, float, float]:
    """Ratio a / b of paired positive measurements: exp of the median log ratio, with its bootstrap interval.

    For a speed-up, `a` holds the dense step times and `b` the routed ones, pair by pair.

    Raises:
        ValueError: lengths that differ, fewer than two pairs, or a measurement that is not positive.
    """
    above, below = _sample(a, at_least=2), _sample(b, at_least=2)
    if len(above) != len(below):
        raise ValueError(f"{len(above)} and {len(below)} measurements: pairs need as many of one as of the other")
    if min(above.min(), below.min()) <= 0:
        raise ValueError("a ratio needs positive measurements; 0 or less was measured, so the clock cannot be trusted")
    ratio, low, high = np.exp(median_interval(np.log(above / below), confidence, seed))
    return float(ratio), float(low), float(high)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values in the order given (Holm 1979): the k-th smallest of m times m - k + 1, never decreasing."""
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def indistinguishable_from_best(scores: Mapping[str, Seeds], level: float = LEVEL) -> tuple[str, ...]:
    """The row of lowest mean, then those that paired t-tests (Holm over the rows) cannot tell from it, by mean.

    A row that shares fewer than two seeds with the best one cannot be told from it. Empty without scores.
    """
    means = {name: float(np.mean(list(seeds.values()))) for name, seeds in scores.items() if seeds}
    if not means:
        return ()
    best, *others = sorted(means, key=means.__getitem__)
    p_values = {name: p for name in others if (p := paired_p_value(scores[name], scores[best])) is not None}
    adjusted = dict(zip(p_values, holm(list(p_values.values())), strict=True))
    return (best, *(name for name in others if adjusted.get(name, 1.0) > level))


class GuidanceRates(NamedTuple):
    """Rates of the two branches of Sparse Guidance."""

    strong: float
    weak: float
    is_clearly_weak: bool  # else the weak rate is the largest that there is


def guidance_rates(losses: Mapping[float, float]) -> GuidanceRates | None:
    """Rates for Sparse Guidance, read off one network's validation loss at several rates.

    Our reading, since the paper searches them by FID: the strong branch bypasses as much as costs little, the largest
    rate whose loss exceeds the smallest by at most the share `STRONG_EXCESS`; the weak one is clearly worse, the
    smallest rate above it whose loss exceeds the smallest by `WEAK_EXCESS` or more, else the largest of all.

    Args:
        losses: rate -> loss.

    Returns:
        None where no rate is left for a weak branch.
    """
    best = min(losses.values())
    strong = max(rate for rate, loss in losses.items() if loss <= best * (1 + STRONG_EXCESS))
    above = sorted(rate for rate in losses if rate > strong)
    if not above:
        return None
    clear = [rate for rate in above if losses[rate] >= best * (1 + WEAK_EXCESS)]
    return GuidanceRates(strong, (clear or above[-1:])[0], bool(clear))


def _differences(a: Seeds, b: Seeds) -> list[float]:
    return [a[seed] - b[seed] for seed in a if seed in b]


def _sample(values: ArrayLike, at_least: int) -> NDArray[np.float64]:
    sample = np.asarray(values, dtype=np.float64).ravel()
    if len(sample) < at_least:
        raise ValueError(f"{len(sample)} values: at least {at_least} needed")
    if not np.isfinite(sample).all():
        raise ValueError("values must be finite; NaN or infinity was given")
    return sample
