"""The power of the paired t-test, against published values, simulations and a hand-worked bound."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from tread_bench.core.numbers.statistics import (
    LEVEL,
    POWER,
    Spread,
    detectable_difference,
    holm,
    mean_interval,
    paired_test_power,
    seeds_to_find,
)

# statsmodels 0.14, TTestPower().power and .solve_power, which returns a real number of pairs
POWERS = [
    (0.5, 34, 0.05, 0.8077775012792737),
    (1.0, 10, 0.05, 0.8030968566327218),
    (1.0, 10, 0.05 / 6, 0.46939872563902235),
    (2.0, 5, 0.05 / 6, 0.4995157794921845),
    (0.2, 199, 0.05, 0.8016910240370655),
]
PAIRS = [
    (0.5, 0.05, 33.36713118431779),
    (1.0, 0.05, 9.93785094105438),
    (1.0, 0.05 / 6, 15.662876193391977),
    (1.5, 0.05 / 6, 8.9399045351574),
    (0.1, 0.05 / 2, 953.0174209669475),
    (3.0, 0.05 / 6, 4.717437025620045),
    (0.75, 0.05 / 3, 21.554032284665688),
]
ROWS = 6  # that share one dense reference


@pytest.mark.parametrize(("effect", "seeds", "level", "power"), POWERS)
def test_power_is_that_of_another_program(effect, seeds, level, power):
    assert paired_test_power(effect, seeds, level) == pytest.approx(power, abs=1e-6)


@pytest.mark.parametrize(("effect", "level", "pairs"), PAIRS)
def test_the_number_of_seeds_is_that_of_another_program(effect, level, pairs):
    assert seeds_to_find(effect, 1000, level) == math.ceil(pairs)


def test_without_an_effect_the_power_is_the_level_and_without_spread_two_seeds_are_enough():
    for seeds in (2, 3, 10, 300):
        assert paired_test_power(0.0, seeds, 0.01) == pytest.approx(0.01)
    assert seeds_to_find(math.inf, 1000) == 2


def test_where_even_the_most_seeds_are_too_few_there_is_no_number():
    assert seeds_to_find(1.0, 15, LEVEL / 6) is None
    assert seeds_to_find(1.0, 16, LEVEL / 6) == 16


def test_the_upper_bound_of_a_spread_is_that_of_chi_square():
    spread = Spread.behind(mean_interval([1.0, 2.0, 3.0]))
    assert spread.value == pytest.approx(1.0) and spread.pairs == 3
    assert spread.upper() == pytest.approx(math.sqrt(2 / 0.102587), rel=1e-5)  # the 5 % point of two degrees of freedom
    assert Spread(1.3).upper() == 1.3
    assert Spread.behind(mean_interval([1.0])) is None


def test_in_95_percent_of_samples_the_bound_lies_above_the_true_spread():
    rng = np.random.default_rng(5)
    samples = rng.normal(0, 1.7, (2000, 4))
    above = np.mean([Spread(float(np.std(sample, ddof=1)), 4).upper() >= 1.7 for sample in samples])
    assert above == pytest.approx(0.95, abs=0.015)


@pytest.mark.full
@pytest.mark.parametrize("differing", [1, ROWS])
def test_so_many_seeds_find_the_difference_in_2000_simulated_studies(differing):
    """Rows share a dense row, and are tested as the report does; at no effect, few studies claim one."""
    seeds, spread, difference = seeds_to_find(1.25, 1000, LEVEL / ROWS), 1.2, 1.5
    rng = np.random.default_rng(differing)
    found, falsely = [], []
    for _ in range(2000):
        dense = rng.normal(20, spread / math.sqrt(2), seeds)
        rows = rng.normal(20, spread / math.sqrt(2), (ROWS, seeds))
        rows[:differing] += difference
        p_values = [stats.ttest_rel(row, dense).pvalue for row in rows]
        rejected = np.array(holm(p_values)) <= LEVEL
        found.append(rejected[0])
        falsely.append(rejected[differing:].any())

    # The first row is found as promised: hardly more often if it is the only one, more often beside others.
    promised = paired_test_power(difference / spread, seeds, LEVEL / ROWS)
    assert promised >= POWER
    assert np.mean(found) >= promised - 0.027  # three standard errors
    assert differing > 1 or np.mean(found) <= promised + 0.045
    assert np.mean(falsely) <= LEVEL + 0.015


def test_a_difference_that_can_be_detected_is_found_with_that_power():
    spread, n, tests = 2.0, 5, 6
    sample = np.array([-1, -0.5, 0, 0.5, 1]) * spread / np.std([-1, -0.5, 0, 0.5, 1], ddof=1)
    least = detectable_difference(sample, tests)
    rng = np.random.default_rng(5)
    draws = rng.normal(least, spread, size=(4000, n))
    t = draws.mean(axis=1) / (draws.std(axis=1, ddof=1) / math.sqrt(n))
    found = np.mean(2 * stats.t.sf(np.abs(t), n - 1) <= 0.05 / tests)
    assert found == pytest.approx(0.8, abs=0.02)
    assert detectable_difference([1.0]) is None and detectable_difference([]) is None
    assert detectable_difference(sample) < least
