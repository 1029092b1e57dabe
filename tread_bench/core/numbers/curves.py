"""Quality over the cost of training, one seed at a time: its value at a cost, and what it cost to reach a value."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import interpolate, optimize, stats

from tread_bench.core.config.metrics import ENOUGH_POINTS

ENOUGH_SEEDS = 5  # of an interval by order statistics
COVERAGE = 0.9375  # of that interval, at least: that of the range of five

SAME = 1e-9  # relative difference up to which two costs are one


@dataclass(frozen=True)
class Curve:
    """A metric of one seed over the cost of its training; lower is better.

    The fit is the one way in which anything between two evaluated points is read. It never rises: an isotonic
    regression (least squares) of the log values over the points, in the order of their costs, and through its values a
    monotone cubic interpolation (PCHIP, Fritsch and Carlson 1980) over the log cost. It never goes beyond the data.

    Args:
        costs: (N,), positive and rising.
        values: (N,), positive, as measured.
    """

    costs: tuple[float, ...]
    values: tuple[float, ...]

    @classmethod
    def of(cls, costs: Sequence[float], values: Sequence[float]) -> Curve | None:
        """Return the curve; None where it has fewer than `ENOUGH_POINTS` points, or a value without a logarithm."""
        if len(costs) < ENOUGH_POINTS or min(values) <= 0:
            return None
        return cls(tuple(costs), tuple(values))

    @cached_property
    def fitted(self) -> NDArray[np.float64]:
        """The isotonic regression of the log values at the points, (N,)."""
        return np.asarray(optimize.isotonic_regression(np.log(self.values), increasing=False).x)

    @cached_property
    def _log_value(self) -> interpolate.PchipInterpolator:
        return interpolate.PchipInterpolator(np.log(self.costs), self.fitted, extrapolate=False)

    def value_at(self, cost: float) -> float | None:
        """Return the fitted value; None outside the evaluated costs."""
        inside = self.costs[0] * (1 - SAME) <= cost <= self.costs[-1] * (1 + SAME)
        if not inside:
            return None
        return math.exp(self._log_value(math.log(min(max(cost, self.costs[0]), self.costs[-1]))))

    def cost_at(self, value: float) -> float:
        """Return the cost at which the fit first comes down to the value.

        It is infinite where the fit never does, and that of the first point where it is there already.
        """
        target = math.log(value) + SAME
        reached = np.flatnonzero(self.fitted <= target)
        if not len(reached):
            return math.inf
        after = int(reached[0])
        if after == 0 or self.fitted[after] >= math.log(value):  # there at the point, up to rounding
            return self.costs[after]

        # Between two points, the root of their cubic.
        low, high = math.log(self.costs[after - 1]), math.log(self.costs[after])
        a, b, c, d = map(float, self._log_value.c[:, after - 1])
        d -= math.log(value)
        return math.exp(low + optimize.brentq(lambda x: ((a * x + b) * x + c) * x + d, 0.0, high - low))

    @property
    def end(self) -> float:
        """The fitted value at the last point."""
        return math.exp(self.fitted[-1])


def slope(costs: Sequence[float], values: Sequence[float]) -> float | None:
    """Return the change of the values per e-fold of the cost, by least squares; None with fewer than two points."""
    return float(stats.linregress(np.log(costs), values).slope) if len(costs) > 1 else None


@dataclass(frozen=True, slots=True)
class Reached:
    """What it took to reach a target, over seeds: the median, infinite where at most half of the seeds reached it.

    `low` and `high` are the interval by order statistics, whose upper end may be infinite; None with fewer than five
    seeds. `reached` of `n` seeds reached the target.
    """

    ratio: float
    low: float | None
    high: float | None
    n: int
    reached: int


def over_seeds(ratios: Iterable[float]) -> Reached | None:
    """Return the median of positive ratios, of which some may be infinite, and its interval; None without any.

    The interval is the narrowest between the k-th lowest and the k-th highest that covers the median with at least
    93.75 % whatever the distribution: k = 1, the range, for up to eight seeds.
    """
    ordered = sorted(ratios)
    n = len(ordered)
    if not n:
        return None
    middle = math.sqrt(ordered[(n - 1) // 2]) * math.sqrt(ordered[n // 2])
    reached = sum(map(math.isfinite, ordered))
    if n < ENOUGH_SEEDS:
        return Reached(middle, None, None, n, reached)
    aside = max(k for k in range(n // 2) if k == 0 or 1 - 2 * stats.binom.cdf(k, n, 0.5) >= COVERAGE)
    return Reached(middle, ordered[aside], ordered[n - 1 - aside], n, reached)
