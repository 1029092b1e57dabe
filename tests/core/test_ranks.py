"""Rank correlations: closed forms, and simulations with a known truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from tests.core.simulated_placements import Counting, Truth, beyond, found
from tread_bench.core.numbers.ranks import FEWEST, rank_correlation


def test_one_pair_is_spearman():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 16))
    assert rank_correlation([(a, b)]).mean == pytest.approx(stats.spearmanr(a, b).statistic)


def test_ties_have_the_mean_of_their_ranks():
    a, b = [1, 2, 2, 3, 4, 5, 6, 6], [3, 1, 1, 2, 5, 4, 6, 8]
    assert rank_correlation([(a, b)]).mean == pytest.approx(stats.spearmanr(a, b).statistic)


def test_several_pairs_are_averaged_and_have_the_interval_of_one():
    up, one_swap = np.arange(16), np.array([1, 0, *range(2, 16)])
    both = rank_correlation([(up, up), (up, -up)])
    assert both.mean == pytest.approx(0)
    assert both.bounds == pytest.approx((-math.tanh(half := 1.959964 / math.sqrt(13)), math.tanh(half)))
    assert rank_correlation([(up, up)]).low == pytest.approx(rank_correlation([(up, one_swap)]).low)


@pytest.mark.parametrize("sign", [1, -1])
def test_an_order_without_any_difference_has_an_interval(sign):
    same = rank_correlation([(np.arange(16), sign * np.arange(16))])
    assert same.mean == pytest.approx(sign)
    assert same.low < 1
    assert -1 <= same.low < same.high <= 1
    assert same.low <= same.mean <= same.high
    assert same.excludes(0)


def test_only_the_order_counts():
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, 12))
    assert rank_correlation([(np.exp(5 * a), b**3)]) == rank_correlation([(a, b)])


def test_equal_items_have_no_order():
    assert rank_correlation([(np.ones(FEWEST), np.arange(FEWEST))]) is None


def test_within_groups_it_is_the_partial_correlation_given_an_indicator_of_each():
    """By least squares over the indicators, as a partial correlation is defined."""
    rng = np.random.default_rng(2)
    groups = np.repeat([0, 1, 2, 3], [1, 4, 6, 5])
    a, b = rng.normal(size=(2, 16)) + groups
    indicators = np.eye(4)[groups]
    left = [
        ranks - indicators @ np.linalg.lstsq(indicators, ranks)[0] for ranks in (stats.rankdata(a), stats.rankdata(b))
    ]
    partial = rank_correlation([(a, b)], given=groups)
    assert partial.mean == pytest.approx(np.corrcoef(*left)[0, 1])
    as_far = math.atanh(partial.high) - math.atanh(partial.mean)
    assert as_far == pytest.approx(1.959964 * math.sqrt((1 + partial.mean**2 / 2) / 10))  # 16 - 3 - 3


def test_what_is_equal_within_each_group_has_no_order_there():
    rng = np.random.default_rng(3)
    groups = np.repeat([0, 1, 2], [5, 5, 6])
    assert rank_correlation([(np.exp(groups), rng.normal(size=16))], given=groups) is None
    assert rank_correlation([(rng.normal(size=16), -groups)], given=groups) is None


def test_too_many_groups_leave_nothing_to_correlate():
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=(2, 16))
    assert rank_correlation([(a, b)], given=np.minimum(np.arange(16), 8)) is not None  # 16 - 8
    assert rank_correlation([(a, b)], given=np.minimum(np.arange(16), 9)) is None


@pytest.mark.parametrize("shapes", [((FEWEST - 1,), (FEWEST - 1,)), ((16,), (15,)), ((4, 4), (4, 4))])
def test_too_few_items_are_an_error(shapes):
    with pytest.raises(ValueError, match="must be as many items, and 8 or more"):
        rank_correlation([tuple(np.zeros(shape) for shape in shapes)])


STUDIES = 300


@pytest.mark.parametrize("noise", [0.0, 0.3, 1.0])
def test_without_a_relation_five_per_cent_are_found_to_rank(noise):
    intervals = found(Truth(relation=0.0, noise=noise), STUDIES)
    share = np.mean([one.excludes(0) for one in intervals])
    assert share <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / STUDIES)


@pytest.mark.parametrize("relation", [0.3, 0.6, 0.9])
@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_intervals_cover_the_true_correlation(relation, noise):
    truth = Truth(relation=relation, noise=noise)
    intervals = found(truth, STUDIES)
    share = np.mean([not one.excludes(truth.correlation) for one in intervals])
    assert share >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / STUDIES)


@pytest.mark.slow
@pytest.mark.parametrize("bent", [1, 2])
def test_what_only_counts_blocks_is_not_found_to_say_more(bent):
    """Without noise, where the intervals are narrowest; a line over the ranks of the numbers is above 0 in 4.5 %."""
    intervals = beyond(Counting(own=0.0, noise=0.0, bent=bent), 4000)
    share = np.mean([one.low > 0 for one in intervals])
    assert share <= 0.025 + 3 * math.sqrt(0.025 * 0.975 / 4000)


def test_what_says_more_than_the_number_of_blocks_is_found():
    intervals = beyond(Counting(own=1.0, noise=0.1), STUDIES)
    assert np.mean([one.low > 0 for one in intervals]) > 0.9


def test_a_strong_relation_is_found():
    intervals = found(Truth(relation=0.9, noise=0.3), STUDIES)
    assert np.mean([one.low > 0 for one in intervals]) > 0.9
