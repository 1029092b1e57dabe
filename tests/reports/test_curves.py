"""A curve says what lies between its points, and nothing beyond them."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from tread_bench.core.numbers.curves import Curve, over_seeds

COSTS = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0)


def power_law(cost):
    return 50.0 * cost**-0.7


def test_a_power_law_is_a_straight_line_of_the_fit():
    curve = Curve(COSTS, tuple(map(power_law, COSTS)))
    for cost in (1.0, 1.3, 2.5, 5.0, 7.9, 8.0):
        assert curve.value_at(cost) == pytest.approx(power_law(cost), rel=1e-9)
        assert curve.cost_at(power_law(cost)) == pytest.approx(cost, rel=1e-6)


def test_nothing_is_said_beyond_the_data():
    curve = Curve(COSTS, tuple(map(power_law, COSTS)))
    assert curve.value_at(0.99) is None and curve.value_at(8.01) is None
    assert curve.cost_at(power_law(8.1)) == math.inf  # never reached
    assert curve.cost_at(60.0) == COSTS[0]  # there already at the first point


def test_the_fit_never_rises_and_pools_what_does():
    values = (50.0, 30.0, 33.0, 20.0, 21.0, 18.0)
    curve = Curve(COSTS, values)
    fine = [curve.value_at(cost) for cost in np.geomspace(1, 8, 500)]
    assert all(later <= earlier * (1 + 1e-12) for earlier, later in pairwise(fine))
    assert curve.value_at(2.0) == curve.value_at(3.0) == pytest.approx(math.sqrt(30 * 33))
    assert curve.cost_at(math.sqrt(20 * 21)) == 4.0  # first there
    assert curve.end == pytest.approx(18.0)


def test_reading_a_value_and_a_cost_are_inverse():
    rng = np.random.default_rng(0)
    for _ in range(50):
        values = tuple(40 * np.exp(-np.cumsum(rng.uniform(-0.02, 0.3, 6))))
        curve = Curve(COSTS, values)
        for value in np.geomspace(curve.end, math.exp(curve.fitted[0]), 7)[1:-1]:
            assert curve.value_at(curve.cost_at(value)) == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize("values", [(9.0,) * 5, (9.0, 8.0, 7.0, 6.0, 5.0, 0.0)])
def test_points_that_allow_no_interpolation(values):
    assert Curve.of(COSTS[: len(values)], values) is None


def test_the_median_over_seeds_some_of_which_never_reach():
    assert over_seeds([]) is None
    few = over_seeds([0.5, 0.8, math.inf, math.inf])
    assert (few.ratio, few.low, few.high, few.n, few.reached) == (math.inf, None, None, 4, 2)
    five = over_seeds([0.9, math.inf, 0.5, 0.8, 0.7])
    assert (five.ratio, five.low, five.high, five.n, five.reached) == (pytest.approx(0.8), 0.5, math.inf, 5, 4)
    assert over_seeds([2.0, 0.5]).ratio == pytest.approx(1.0)  # a ratio and its inverse cancel


@pytest.mark.parametrize("n", range(5, 31))
def test_the_interval_covers_the_median_whatever_the_distribution(n):
    found = over_seeds(float(rank) for rank in range(1, n + 1))
    below = int(found.low)  # a median lies between the k-th and the (n + 1 - k)-th with this probability
    assert 1 - 2 * stats.binom.cdf(below - 1, n, 0.5) >= 0.9375
    assert 1 - 2 * stats.binom.cdf(below, n, 0.5) < 0.9375
    assert found.low + found.high == n + 1
