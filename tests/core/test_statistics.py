"""Intervals cover what they promise, closed forms hold, power is that of another program, and rates are chosen well."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tread_bench.core.numbers import statistics
from tread_bench.core.stored.records import Candidate, Tuning


def test_t_interval_of_a_hand_worked_sample():
    estimate = statistics.mean_interval([1.0, 2.0, 3.0])  # s = 1, t(2, 0.975) = 4.302653
    assert estimate.mean == 2.0
    assert estimate.high - 2.0 == pytest.approx(4.302653 / math.sqrt(3), rel=1e-6)
    assert 2.0 - estimate.low == pytest.approx(estimate.high - 2.0)


def test_one_value_has_no_interval_and_excludes_nothing():
    estimate = statistics.mean_interval([7.0])
    assert estimate == statistics.MeanInterval(7.0, None, None, 1)
    assert not estimate.is_above(0.0) and not estimate.is_below(0.0)


@pytest.mark.parametrize(("values", "rule"), [([], "at least 1"), ([1.0, math.nan], "finite"), ([math.inf], "finite")])
def test_no_values_and_values_that_are_not_finite_are_refused(values, rule):
    with pytest.raises(ValueError, match=rule):
        statistics.mean_interval(values)


def test_bootstrap_interval_covers_the_median():
    draws = np.random.default_rng(2).lognormal(0.0, 0.5, size=(200, 25))
    inside = [low <= 1.0 <= high for _, low, high in map(statistics.median_interval, draws)]
    assert 0.91 <= np.mean(inside) <= 0.99


def test_pairing_removes_what_the_seeds_share():
    noise = np.random.default_rng(3).normal(0, 10, 5)
    dense = {seed: 20 + n for seed, n in enumerate(noise)}
    routed = {seed: value + 1 + 0.1 * seed for seed, value in dense.items()}
    difference = statistics.paired_difference(routed, dense)
    assert difference.mean == pytest.approx(1.2)
    assert difference.is_above(0.0) and not difference.is_below(1.2)
    alone = statistics.paired_difference({0: 1.0, 1: 5.0}, {1: 3.0, 2: 9.0})
    assert alone == statistics.MeanInterval(2.0, None, None, 1)
    assert statistics.paired_difference({0: 1.0}, {1: 1.0}) is None


def test_paired_ratio_inverts_and_repeats():
    assert statistics.paired_ratio([12.5, 20.0, 37.5], [10.0, 16.0, 30.0]) == pytest.approx((1.25, 1.25, 1.25))
    a, b = np.random.default_rng(5).lognormal(size=(2, 21))
    ratio, low, high = statistics.paired_ratio(a, b)
    assert low < ratio < high
    assert statistics.paired_ratio(a, b) == (ratio, low, high)
    assert statistics.paired_ratio(b, a) == pytest.approx((1 / ratio, 1 / high, 1 / low), rel=0.05)


@pytest.mark.parametrize(
    ("a", "b", "rule"), [([1, 2], [1], "at least 2"), ([1, 0], [1, 1], "positive"), ([1, 2, 3], [1, 2], "3 and 2")]
)
def test_pairs_that_make_no_ratio_are_refused(a, b, rule):
    with pytest.raises(ValueError, match=rule):
        statistics.paired_ratio(a, b)


# ---- power of the paired t-test

# statsmodels 0.14, TTestPower().power and .solve_power, which returns a real number of pairs
POWERS = [
    (1.0, 10, 0.05, 0.8030968566327218),
    (2.0, 5, 0.05 / 6, 0.4995157794921845),
    (0.2, 199, 0.05, 0.8016910240370655),
]
PAIRS = [
    (1.0, 0.05 / 6, 15.662876193391977),
    (0.1, 0.05 / 2, 953.0174209669475),
    (3.0, 0.05 / 6, 4.717437025620045),
]


def test_power_and_seeds_are_those_of_another_program():
    for effect, seeds, level, power in POWERS:
        assert statistics.paired_test_power(effect, seeds, level) == pytest.approx(power, abs=1e-6)
    for effect, level, pairs in PAIRS:
        least = math.ceil(pairs)
        assert statistics.seeds_to_find(effect, 1000, level) == statistics.seeds_to_find(effect, least, level) == least
        assert statistics.seeds_to_find(effect, least - 1, level) is None
    assert statistics.paired_test_power(0.0, 3, 0.01) == pytest.approx(0.01)
    assert statistics.seeds_to_find(math.inf, 1000) == 2


def test_a_difference_that_can_be_detected_is_found_with_that_power():
    sample = np.array([-1, -0.5, 0, 0.5, 1])
    spread = np.std(sample, ddof=1)
    for tests in (1, 6):
        effect = statistics.detectable_difference(sample, tests) / spread
        power = statistics.paired_test_power(effect, 5, statistics.LEVEL / tests)
        assert power == pytest.approx(statistics.POWER)
    assert statistics.detectable_difference([1.0]) is None and statistics.detectable_difference([]) is None


# ---- the choice of a learning rate


def test_what_diverged_brackets_and_what_is_unknown_does_not():
    assert statistics.best_of({1.0: 2.0, 2.0: 1.0, 4.0: math.inf}) == (2.0, True)
    assert statistics.best_of({1.0: 2.0, 2.0: 1.0, 4.0: None}) == (2.0, False)
    assert statistics.best_of({1.0: None, 2.0: math.inf}) is None
    assert statistics.best_of({2.0: 1.0, 1.0: 1.0}).value == 1.0
    assert statistics.best_of({1.0: 1.0, 2.0: 2.0}) == (1.0, False)
    assert statistics.best_of({1.0: 2.0, 2.0: 1.0}) == (2.0, False)


def candidates(*losses: float) -> list[Candidate]:
    """Learning rates 1, 2, 3, ..., each with the loss of its training; 0: it has not ended."""
    return [
        Candidate(learning_rate=rate, cells=["c"], validation_losses=[*filter(None, [loss])])
        for rate, loss in enumerate(losses, start=1)
    ]


@pytest.mark.parametrize(
    ("check", "has_moved"),
    [
        ((3.0, 1.0, 2.0), False),
        ((1.0, 2.0, 3.0), True),
        ((1.0, 2.0, 0.0), None),  # the last one has not ended
        ((), None),
    ],
)
def test_an_optimum_moves_where_another_candidate_is_best_at_the_row_s_own_length(check, has_moved):
    found = Tuning(candidates=candidates(3.0, 1.0, 2.0), seeds=[0], share=0.5, check=candidates(*check))
    assert found.has_moved is has_moved
