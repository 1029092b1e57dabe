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
    assert same.excludes(0)


def test_only_the_order_counts():
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, 12))
    assert rank_correlation([(np.exp(5 * a), b**3)]) == rank_correlation([(a, b)])


def test_equal_items_have_no_order():
    assert rank_correlation([(np.ones(FEWEST), np.arange(FEWEST))]) is None


def test_beyond_what_is_given_is_the_partial_correlation():
    rng = np.random.default_rng(2)
    a, b, c = rng.normal(size=(3, 16)) + np.arange(16) / 4
    ab, ac, bc = (stats.spearmanr(*both).statistic for both in ((a, b), (a, c), (b, c)))
    partial = rank_correlation([(a, b)], given=c)
    assert partial.mean == pytest.approx((ab - ac * bc) / math.sqrt((1 - ac**2) * (1 - bc**2)))
    as_far = math.atanh(partial.high) - math.atanh(partial.mean)
    assert as_far == pytest.approx(1.959964 * math.sqrt((1 + partial.mean**2 / 2) / 12))  # 16 - 1 - 3


def test_what_is_given_itself_has_no_order_beyond_it():
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(2, 16))
    assert rank_correlation([(a, b)], given=np.exp(a)) is None
    assert rank_correlation([(a, b)], given=-b) is None


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


@pytest.mark.parametrize("noise", [0.0, 0.3, 1.0])
def test_what_only_counts_blocks_is_not_found_to_say_more(noise):
    intervals = beyond(Counting(own=0.0, noise=noise), STUDIES)
    share = np.mean([one.low > 0 for one in intervals])
    assert share <= 0.025 + 3 * math.sqrt(0.025 * 0.975 / STUDIES)


def test_what_says_more_than_the_number_of_blocks_is_found():
    intervals = beyond(Counting(own=1.0, noise=0.1), STUDIES)
    assert np.mean([one.low > 0 for one in intervals]) > 0.9


def test_a_strong_relation_is_found():
    intervals = found(Truth(relation=0.9, noise=0.3), STUDIES)
    assert np.mean([one.low > 0 for one in intervals]) > 0.9
