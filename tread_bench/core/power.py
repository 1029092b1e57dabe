"""Power of the paired t-test, and the number of seeds that finds a difference. No torch, no pandas."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass

from scipy import stats

from tread_bench.core.statistics import CONFIDENCE, LEVEL, POWER, Estimate

_FEWEST = 2  # seeds that have a spread


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


def seeds_to_find(effect: float, most: int, level: float = LEVEL, power: float = POWER) -> int | None:
    """Return the smallest number of seeds with at least that power; None if even `most` are too few."""
    numbers = range(_FEWEST, most + 1)
    place = bisect_left(numbers, power, key=lambda seeds: paired_test_power(effect, seeds, level))
    return numbers[place] if place < len(numbers) else None


@dataclass(frozen=True, slots=True)
class Spread:
    """The standard deviation of paired differences; `pairs` is the number it was estimated from, None if stated."""

    value: float
    pairs: int | None = None

    @classmethod
    def behind(cls, interval: Estimate) -> Spread | None:
        """Return the spread of differences whose mean has this 95 % Student-t interval; None without one."""
        if interval.high is None:
            return None
        quantile = float(stats.t.ppf((1 + CONFIDENCE) / 2, interval.n - 1))
        return cls((interval.high - interval.mean) * math.sqrt(interval.n) / quantile, interval.n)

    def upper(self, confidence: float = CONFIDENCE) -> float:
        """Return the one-sided upper confidence bound for normal differences; a stated spread is its own bound.

        (pairs - 1) s^2 / sigma^2 is chi-square distributed with pairs - 1 degrees of freedom.
        """
        if self.pairs is None:
            return self.value
        freedom = self.pairs - 1
        return self.value * math.sqrt(freedom / float(stats.chi2.ppf(1 - confidence, freedom)))
