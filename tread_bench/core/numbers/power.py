"""Power of the paired t-test, and the number of seeds that finds a difference. No torch, no pandas."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, stats

from tread_bench.core.numbers.statistics import CONFIDENCE, LEVEL, MeanInterval, student_quantile

POWER = 0.8  # that a study is planned with
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
    return float(sample.std(ddof=1)) * _effect_found(len(sample), LEVEL / tests)


@cache
def _effect_found(seeds: int, level: float) -> float:
    """The smallest effect that a test finds at `POWER`."""
    largest = 1.0
    while paired_test_power(largest, seeds, level) < POWER:
        largest *= 2
    return float(optimize.brentq(lambda effect: paired_test_power(effect, seeds, level) - POWER, 0.0, largest))


@dataclass(frozen=True, slots=True)
class Spread:
    """The standard deviation of paired differences; `pairs` is the number it was estimated from, None if stated."""

    value: float
    pairs: int | None = None

    @classmethod
    def behind(cls, interval: MeanInterval) -> Spread | None:
        """Return the spread of differences whose mean has this 95 % Student-t interval; None without one."""
        if interval.high is None:
            return None
        quantile = student_quantile((1 + CONFIDENCE) / 2, interval.n - 1)
        return cls((interval.high - interval.mean) * math.sqrt(interval.n) / quantile, interval.n)

    def upper(self) -> float:
        """Return the one-sided upper 95 % confidence bound for normal differences; a stated spread is its own bound.

        (pairs - 1) s^2 / sigma^2 is chi-square distributed with pairs - 1 degrees of freedom.
        """
        if self.pairs is None:
            return self.value
        freedom = self.pairs - 1
        return self.value * math.sqrt(freedom / float(stats.chi2.ppf(1 - CONFIDENCE, freedom)))
