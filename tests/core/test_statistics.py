"""Intervals cover what they promise, and closed forms hold."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tread_bench.core.numbers.statistics import (
    MeanInterval,
    holm,
    mean_interval,
    median_interval,
    paired_difference,
    paired_ratio,
)


def test_t_interval_of_a_hand_worked_sample():
    estimate = mean_interval([1.0, 2.0, 3.0])  # s = 1, t(2, 0.975) = 4.302653
    assert estimate.mean == 2.0
    assert estimate.high - 2.0 == pytest.approx(4.302653 / math.sqrt(3), rel=1e-6)
    assert 2.0 - estimate.low == pytest.approx(estimate.high - 2.0)


def test_one_value_has_no_interval_and_excludes_nothing():
    estimate = mean_interval([7.0])
    assert estimate == MeanInterval(7.0, None, None, 1)
    assert not estimate.is_above(0.0) and not estimate.is_below(0.0)


@pytest.mark.parametrize(("values", "rule"), [([], "at least 1"), ([1.0, math.nan], "finite"), ([math.inf], "finite")])
def test_no_values_and_values_that_are_not_finite_are_refused(values, rule):
    with pytest.raises(ValueError, match=rule):
        mean_interval(values)


def test_bootstrap_interval_covers_the_median():
    draws = np.random.default_rng(2).lognormal(0.0, 0.5, size=(200, 25))
    inside = [low <= 1.0 <= high for _, low, high in map(median_interval, draws)]
    assert 0.91 <= np.mean(inside) <= 0.99


def test_pairing_removes_what_the_seeds_share():
    noise = np.random.default_rng(3).normal(0, 10, 5)
    dense = {seed: 20 + n for seed, n in enumerate(noise)}
    routed = {seed: value + 1 + 0.1 * seed for seed, value in dense.items()}
    difference = paired_difference(routed, dense)
    assert difference.mean == pytest.approx(1.2)
    assert difference.is_above(0.0) and not difference.is_below(1.2)
    assert paired_difference({0: 1.0, 1: 5.0}, {1: 3.0, 2: 9.0}) == MeanInterval(2.0, None, None, 1)
    assert paired_difference({0: 1.0}, {1: 1.0}) is None


def test_holm_against_a_hand_worked_example():
    # sorted: .005 x 4 = .02, .01 x 3 = .03, .03 x 2 = .06, .04 x 1 = .04 -> raised to .06
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([]) == []


def test_paired_ratio_inverts_and_repeats():
    assert paired_ratio([12.5, 20.0, 37.5], [10.0, 16.0, 30.0]) == pytest.approx((1.25, 1.25, 1.25))
    a, b = np.random.default_rng(5).lognormal(size=(2, 21))
    ratio, low, high = paired_ratio(a, b)
    assert low < ratio < high
    assert paired_ratio(a, b) == (ratio, low, high)
    assert paired_ratio(b, a) == pytest.approx((1 / ratio, 1 / high, 1 / low), rel=0.05)


@pytest.mark.parametrize(
    ("a", "b", "rule"), [([1, 2], [1], "at least 2"), ([1, 0], [1, 1], "positive"), ([1, 2, 3], [1, 2], "3 and 2")]
)
def test_pairs_that_make_no_ratio_are_refused(a, b, rule):
    with pytest.raises(ValueError, match=rule):
        paired_ratio(a, b)
