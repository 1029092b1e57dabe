"""From how much compute on routing pays: ratios in closed form, the rule step by step, simulated error rates."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from tests.core.simulated_onsets import (
    BARELY,
    COSTS,
    LAST,
    NULLS,
    VARIANTS,
    Truth,
    answers_in,
    coverages,
    pays_in,
    rising,
    skewed,
)
from tread_bench.core.numbers.curves import Curve
from tread_bench.core.numbers.onset import LogRatio, Ratio, log_ratios, onset

SEEDS = (0, 1, 2)


def power_law(factor: float = 1.0) -> Curve:
    """An arm that needs `factor` times the compute of another for the same loss; exact between its lengths."""
    return Curve(COSTS, tuple((cost / factor) ** -0.2 for cost in COSTS))


def ratio(*values: float) -> Ratio:
    """Of seeds whose loss falls with the root of the compute."""
    return Ratio({seed: LogRatio(math.log(value), math.log(value) / 2) for seed, value in enumerate(values)})


@pytest.mark.parametrize("factor", [0.3, 0.8, 1.0, 1.25, 3.5])
def test_the_ratio_of_two_power_laws_is_known_at_every_length(factor):
    found = log_ratios(power_law(factor), power_law())
    assert [one.value for one in found] == pytest.approx([math.log(factor)] * 3)
    assert not any(one.is_bound for one in found)


def test_swapping_the_arms_inverts_the_ratio():
    a, b = Curve(COSTS, (0.31, 0.24, 0.2)), Curve(COSTS, (0.3, 0.25, 0.19))
    there, back = log_ratios(a, b), log_ratios(b, a)
    assert [one.value for one in there] == pytest.approx([-one.value for one in back])


def test_costs_that_differ_a_little_count():
    dearer = Curve(tuple(1.02 * cost for cost in COSTS), power_law().values)
    assert [one.value for one in log_ratios(dearer, power_law())] == pytest.approx([math.log(1.02)] * 3)


def test_nothing_is_extrapolated():
    """At the second of three lengths the better arm was that good at its first, a quarter of the compute, already."""
    found = log_ratios(power_law(50.0), power_law())
    assert all(one.is_bound for one in found)
    assert [math.exp(one.value) for one in found] == pytest.approx([16, 4, 16])
    bound = Ratio(dict.fromkeys(SEEDS, found[1])).estimate
    assert bound.mean == pytest.approx(4)
    assert bound.bounds is None


def test_a_loss_that_rises_has_no_compute():
    rising_loss = Curve(COSTS, (0.3, 0.2, 0.21))
    assert log_ratios(rising_loss, power_law()) is None
    unknown = Ratio({0: LogRatio(0.5, 0.1), 1: None, 2: LogRatio(0.5, 0.1)})
    assert unknown.estimate is None
    assert onset([[unknown]] * 3).answer == "inconclusive"


def test_widths_are_averaged_seed_by_seed_over_the_seeds_they_share():
    second = Ratio({0: LogRatio(math.log(8.0), 0.0, True), 1: LogRatio(math.log(2.0), 0.0)})
    mean = Ratio.mean_of([ratio(2.0, 8.0, 3.0), second])
    assert mean.logs == pytest.approx({0: math.log(4.0), 1: math.log(4.0)})
    assert mean.is_bound


def test_it_pays_from_the_shortest_length_down_to_which_every_length_does():
    much, none, worse = ratio(1.5, 1.6, 1.55), ratio(0.9, 1.0, 1.1), ratio(0.5, 0.52, 0.51)
    assert onset([[none], [much], [much]]).first == 1
    assert onset([[much], [none], [much]]).first == 2  # what lies below a length that fails is not tested
    assert onset([[much], [much], [much]]).first == 0
    assert onset([[much], [much], [none]]).answer == "inconclusive"
    assert onset([[much], [much], [worse]]).answer == "does not pay"


def test_a_route_must_beat_every_reference():
    much, worse = ratio(1.5, 1.6, 1.55), ratio(0.5, 0.52, 0.51)
    assert onset([[much, much]] * 3).answer == "pays"
    assert onset([[much, worse]] * 3).answer == "does not pay"
    assert onset([[much, ratio(1.5)]] * 3).answer == "inconclusive"  # one seed decides nothing


def test_the_number_of_tests_counts():
    some = ratio(1.15, 1.2, 1.25)
    assert onset([[some]] * 3).answer == "pays"
    assert onset([[some]] * 3, tests=100).answer == "inconclusive"


@pytest.mark.parametrize("margin", [1.0, 1.2, 2.0])
def test_at_the_margin_there_is_no_advantage(margin):
    """What is tested is 0 where the ratio is the margin, at every length, and above it where the ratio is."""
    at, above = (log_ratios(power_law(factor), power_law(), margin) for factor in (margin, 1.1 * margin))
    assert [one.advantage for one in at] == pytest.approx([0.0] * 3, abs=1e-12)
    assert [one.advantage for one in above] == pytest.approx([0.2 * math.log(1.1)] * 3)


def test_a_margin_beyond_what_was_measured_decides_nothing():
    found = log_ratios(power_law(), power_law(), 20.0)
    assert onset([[Ratio(dict.fromkeys(SEEDS, one))] for one in found]).answer == "inconclusive"


def test_the_p_value_is_that_of_a_one_sided_t_test():
    values = (1.02, 1.3, 0.95)
    expected = stats.ttest_1samp(np.log(values), 0.0, alternative="greater").pvalue
    assert ratio(*values).p_value == pytest.approx(expected)


# Error rates. `simulated_onsets.py` makes the whole tables.


def at_most(share: float, runs: int) -> float:
    """Three standard errors above."""
    return share + 3 * math.sqrt(share * (1 - share) / runs)


@pytest.mark.parametrize("name", ["no effect, without a control", "pays at the longest alone"])
def test_five_percent_of_claims_are_false_at_most(name):
    truth, place = NULLS[name]
    assert pays_in(truth, 150, place) <= at_most(0.05, 150)


def test_an_effect_is_found_and_covered():
    assert answers_in(rising(1.5), 40, "pays") > 0.9
    assert min(coverages(Truth(ratios=((1.5, 1.5, 1.5),)), 150)) >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / 150)


def test_another_level_would_be_caught(monkeypatch):
    monkeypatch.setattr("tread_bench.core.numbers.onset.LEVEL", 0.3)
    assert pays_in(NULLS["no effect, without a control"][0], 100, LAST) > at_most(0.05, 100)


@pytest.mark.endurance
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", NULLS)
def test_five_percent_of_claims_are_false_at_most_in_every_truth(name, variant):
    truth, place = NULLS[name]
    assert pays_in(replace(truth, **VARIANTS[variant]), 500, place) <= at_most(0.05, 500)


@pytest.mark.endurance
@pytest.mark.parametrize("variant", VARIANTS)
def test_that_it_pays_beyond_is_denied_in_five_percent_at_most(variant):
    assert answers_in(replace(BARELY, **VARIANTS[variant]), 500, "does not pay") <= at_most(0.05, 500)


@pytest.mark.endurance
@pytest.mark.parametrize("ratios", [(0.7, 0.7, 0.7), (1.0, 1.0, 1.0), (2.0, 2.0, 2.0), (0.7, 1.0, 1.5)])
def test_the_interval_covers_the_ratio(ratios):
    normal, odd = Truth(ratios=(ratios,)), Truth(ratios=(ratios,), draw=skewed, widths=1, seeds=5)
    for truth in (normal, odd):
        assert min(coverages(truth, 500)) >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / 500)
