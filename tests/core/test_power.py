"""The power of the paired t-test, against another program and a hand-worked bound."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tread_bench.core.numbers.statistics import (
    LEVEL,
    POWER,
    Spread,
    detectable_difference,
    mean_interval,
    paired_test_power,
    seeds_to_find,
)

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


def test_a_difference_that_can_be_detected_is_found_with_that_power():
    sample = np.array([-1, -0.5, 0, 0.5, 1])
    spread = np.std(sample, ddof=1)
    for tests in (1, 6):
        least = detectable_difference(sample, tests)
        assert paired_test_power(least / spread, 5, LEVEL / tests) == pytest.approx(POWER)
    assert detectable_difference([1.0]) is None and detectable_difference([]) is None
