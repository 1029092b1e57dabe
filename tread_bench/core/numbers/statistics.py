"""Uncertainty of results: intervals, paired comparisons, and their power. No torch, no pandas."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, stats

CONFIDENCE = 0.95
LEVEL = 0.05
_RESAMPLES = 9999
POWER = 0.8  # that a study is planned with
_FEWEST = 2  # seeds that have a spread

Seeds = Mapping[Any, float]  # seed -> value


@dataclass(frozen=True, slots=True)
class MeanInterval:
    """A mean over `n` values and its confidence interval; a single value has none."""

    mean: float
    low: float | None
    high: float | None
    n: int

    @property
    def bounds(self) -> tuple[float, float] | None:
        """(low, high), or None without an interval."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def spread(self) -> float | None:
        """The standard deviation of the values, from their 95 % interval; None without one."""
        if self.high is None:
            return None
        return (self.high - self.mean) * math.sqrt(self.n) / student_quantile((1 + CONFIDENCE) / 2, self.n - 1)

    def is_above(self, value: float) -> bool:
        """Return whether there is an interval and all of it lies above `value`."""
        return self.low is not None and self.low > value

    def is_below(self, value: float) -> bool:
        """Return whether there is an interval and all of it lies below `value`."""
        return self.high is not None and self.high < value


def mean_interval(values: ArrayLike, confidence: float = CONFIDENCE) -> MeanInterval:
    """Return the mean and its Student-t interval: mean +- t_{n-1} s / sqrt(n). Raises ValueError without values."""
    sample = _sample(values, at_least=1)
    n, mean = len(sample), float(sample.mean())
    if n == 1:
        return MeanInterval(mean, None, None, 1)
    half = student_quantile((1 + confidence) / 2, n - 1) * float(sample.std(ddof=1)) / math.sqrt(n)
    return MeanInterval(mean, mean - half, mean + half, n)


@cache
def student_quantile(p: float, freedom: float) -> float:
    """Return the quantile of Student's t. Without a cache it takes longer than all else of an interval."""
    return float(stats.t.ppf(p, freedom))


def paired_difference(a: Seeds, b: Seeds, confidence: float = CONFIDENCE) -> MeanInterval | None:
    """Return the interval of the mean of a - b over the shared seeds; None if there are none."""
    differences = [a[seed] - b[seed] for seed in a if seed in b]
    return mean_interval(differences, confidence) if differences else None


def log_ratio(a: Seeds, b: Seeds) -> MeanInterval | None:
    """Return the interval of the mean of log(a / b) over the shared seeds.

    None if there are none, or a value is not positive.
    """
    shared = [(a[seed], b[seed]) for seed in a if seed in b]
    if not shared or min(map(min, shared)) <= 0:
        return None
    return mean_interval([math.log(one / other) for one, other in shared])


def hull(intervals: Sequence[MeanInterval | None]) -> MeanInterval | None:
    """Return the first interval, widened to cover them all; None without any, or where one is unknown.

    It keeps its mean, and is without bounds where they are.
    """
    known = [one for one in intervals if one is not None]
    bounds = [one.bounds for one in known if one.bounds is not None]
    if not known or len(known) < len(intervals):
        return None
    if len(bounds) < len(known):
        return known[0]
    lows, highs = zip(*bounds, strict=True)
    return replace(known[0], low=min(lows), high=max(highs))


def median_interval(values: ArrayLike) -> tuple[float, float, float]:
    """Return the median and its percentile bootstrap interval (Efron 1979): (median, low, high).

    Raises:
        ValueError: fewer than two values, which have no interval.
    """
    sample = _sample(values, at_least=2)
    drawn = np.random.default_rng(0).integers(len(sample), size=(_RESAMPLES, len(sample)))
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(np.median(sample[drawn], axis=1), [tail, 1 - tail])
    return float(np.median(sample)), float(low), float(high)


def paired_ratio(a: ArrayLike, b: ArrayLike) -> tuple[float, float, float]:
    """Return the ratio a / b of paired positive measurements: exp of the median log ratio, with its bootstrap interval.

    For a speed-up, `a` holds the dense step times and `b` the routed ones, pair by pair.

    Raises:
        ValueError: different lengths, fewer than two pairs, or a measurement that is not positive.
    """
    above, below = _sample(a, at_least=2), _sample(b, at_least=2)
    if len(above) != len(below):
        raise ValueError(f"{len(above)} and {len(below)} measurements: pairs need as many of one as of the other")
    if min(above.min(), below.min()) <= 0:
        raise ValueError("a ratio needs positive measurements; 0 or less was measured, so the clock cannot be trusted")
    ratio, low, high = np.exp(median_interval(np.log(above / below)))
    return float(ratio), float(low), float(high)


def paired_test_power(effect: float, seeds: int, level: float = LEVEL) -> float:
    """Return the probability that a two-sided paired t-test finds a true difference.

    Exact for normal differences: t is noncentral with seeds - 1 degrees of freedom and noncentrality
    effect * sqrt(seeds) (Johnson & Welch 1940).

    Args:
        effect: the true mean of the paired differences over their standard deviation.
        seeds: number of pairs, 2 or more.
        level: of the test.
    """
    if math.isinf(effect):
        return 1.0
    freedom = seeds - 1
    critical = float(stats.t.isf(level / 2, freedom))
    shift = effect * math.sqrt(seeds)
    return float(stats.nct.sf(critical, freedom, shift) + stats.nct.sf(critical, freedom, -shift))


def seeds_to_find(effect: float, most: int, level: float = LEVEL) -> int | None:
    """Return the smallest number of seeds with at least `POWER`; None if even `most` are too few."""
    numbers = range(_FEWEST, most + 1)
    place = bisect_left(numbers, POWER, key=lambda seeds: paired_test_power(effect, seeds, level))
    return numbers[place] if place < len(numbers) else None


def detectable_difference(differences: ArrayLike, tests: int = 1) -> float | None:
    """Return the smallest true mean that a two-sided paired t-test of so many differences would find at `POWER`.

    The spread is that of the given differences. With several tests it is what the first of Holm's would find, the
    strictest: each at 5 % / tests. None with fewer than two differences.
    """
    sample = np.asarray(differences, dtype=np.float64)
    if len(sample) < _FEWEST:
        return None
    return float(sample.std(ddof=1)) * effect_found(len(sample), LEVEL / tests)


@cache
def effect_found(seeds: int, level: float) -> float:
    """Return the smallest true mean, over the standard deviation, that a two-sided paired t-test finds at `POWER`."""
    largest = 1.0
    while paired_test_power(largest, seeds, level) < POWER:
        largest *= 2
    return float(optimize.brentq(lambda effect: paired_test_power(effect, seeds, level) - POWER, 0.0, largest))


class Best(NamedTuple):
    """The best of some values; `is_bracketed` says whether a lower and a higher one are known to be worse."""

    value: float
    is_bracketed: bool


def best_of(losses: Mapping[float, float | None]) -> Best | None:
    """Return the value of lowest loss; of equal ones the lowest value. None where no loss is finite.

    Args:
        losses: by learning rate, or by another setting; infinite where training diverged, None where it is not known.
    """
    known = {value: loss for value, loss in losses.items() if loss is not None}
    finite = {value: loss for value, loss in known.items() if math.isfinite(loss)}
    if not finite:
        return None
    best = min(finite, key=lambda one: (finite[one], one))
    return Best(best, is_bracketed=min(known) < best < max(known))


def _sample(values: ArrayLike, at_least: int) -> NDArray[np.float64]:
    sample = np.asarray(values, dtype=np.float64).ravel()
    if len(sample) < at_least:
        raise ValueError(f"{len(sample)} values: at least {at_least} needed")
    if not np.isfinite(sample).all():
        raise ValueError("values must be finite; NaN or infinity was given")
    return sample
