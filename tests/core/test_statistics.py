"""Intervals cover what they promise, and closed forms hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from tests.many_families import holm_of_each
from tread_bench.core.numbers.statistics import (
    MeanInterval,
    _critical_value,
    against_best,
    guidance_rates,
    holm,
    mean_interval,
    median_interval,
    paired_difference,
    paired_p_value,
    paired_p_values,
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
    assert not estimate.excludes(0.0)


@pytest.mark.parametrize(("values", "rule"), [([], "at least 1"), ([1.0, math.nan], "finite"), ([math.inf], "finite")])
def test_no_values_and_values_that_are_not_finite_are_refused(values, rule):
    with pytest.raises(ValueError, match=rule):
        mean_interval(values)


def test_t_interval_covers_the_mean_as_often_as_promised():
    draws = np.random.default_rng(1).normal(3.0, 2.0, size=(2000, 5))
    covered = np.mean([not mean_interval(sample).excludes(3.0) for sample in draws])
    assert covered == pytest.approx(0.95, abs=0.015)  # three standard errors of 2,000 trials


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
    assert difference.excludes(0.0)
    unpaired = stats.ttest_ind(list(routed.values()), list(dense.values())).pvalue
    assert paired_p_value(routed, dense) < 0.001 < unpaired


def test_only_shared_seeds_are_paired():
    assert paired_difference({0: 1.0, 1: 5.0}, {1: 3.0, 2: 9.0}) == MeanInterval(2.0, None, None, 1)
    assert paired_difference({0: 1.0}, {1: 1.0}) is None


def test_paired_p_value_is_scipys():
    a, b = np.random.default_rng(4).normal(size=(2, 6))
    expected = stats.ttest_rel(a, b).pvalue
    assert paired_p_value(dict(enumerate(a)), dict(enumerate(b))) == pytest.approx(expected, rel=1e-12)


def test_differences_without_spread_are_decided_by_their_size():
    assert paired_p_value({0: 1.0, 1: 2.0}, {0: 1.0, 1: 2.0}) == 1.0
    assert paired_p_value({0: 2.0, 1: 3.0}, {0: 1.0, 1: 2.0}) == 0.0


def test_paired_ratio_of_an_exact_factor_has_no_width():
    routed = [10.0, 11.0, 30.0, 12.0]
    assert paired_ratio([1.25 * t for t in routed], routed) == pytest.approx((1.25, 1.25, 1.25))


def test_paired_ratio_inverts_and_repeats():
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


def test_holm_against_a_hand_worked_example():
    # sorted: .005 x 4 = .02, .01 x 3 = .03, .03 x 2 = .06, .04 x 1 = .04 -> raised to .06
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([]) == []


def test_adjusted_p_values_of_many_families_are_those_of_each():
    families = np.random.default_rng(6).beta(0.3, 1, size=(20, 10, 6)).round(2)  # some are equal
    expected = [[holm(list(family)) for family in some] for some in families]
    assert (holm_of_each(families) == expected).all()


def _seeds(mean: float, step: float, n: int = 5) -> dict[int, float]:
    return {seed: mean + step * (-1) ** seed * (seed + 1) for seed in range(n)}


def test_rows_that_may_be_the_best():
    scores = {"far": _seeds(30, 0.1), "best": _seeds(10, 0.1), "near": _seeds(10.5, -0.3)}
    found = against_best(scores)
    assert found.best() == ("best", "near") and found.best({"far", "near"}) == ("near",)
    assert found.best({"far"}) == ("far",) and found.best(()) == ()


def test_two_rows_with_all_seeds_are_a_paired_t_test_of_their_logarithms():
    rng = np.random.default_rng(7)
    for shift in np.linspace(0, 1.5, 40):
        table = rng.normal(size=(2, 5)) * 0.5 + [[0], [shift]]
        found = against_best({name: dict(enumerate(np.exp(row))) for name, row in zip("ab", table, strict=True)})
        assert (len(found.best()) == 1) == (stats.ttest_rel(*table).pvalue <= 0.05)
        difference = table[0] - table[1]
        least = stats.t.ppf(0.975, 4) * difference.std(ddof=1) / math.sqrt(5)
        assert found.smallest == pytest.approx(math.expm1(least))


def test_what_the_seeds_share_and_the_unit_of_the_scores_change_nothing():
    rng = np.random.default_rng(12)
    table = np.exp(rng.normal(size=(6, 5)) * 0.3 + np.linspace(0, 0.4, 6)[:, None])
    names = [f"row {k}" for k in range(6)]
    kept = [
        against_best({name: dict(enumerate(row)) for name, row in zip(names, some, strict=True)}).best()
        for some in (table, 7 * table, table * np.exp(rng.normal(size=5) * 3))
    ]
    assert 1 < len(kept[0]) < 6 and set(kept[0]) == set(kept[1]) == set(kept[2])


@pytest.mark.parametrize("scores", [{}, {"a": {}}])
def test_without_scores_no_row_is_the_best(scores):
    assert against_best(scores).best() == () and against_best(scores).smallest is None


@pytest.mark.parametrize(
    "scores",
    [
        {"a": {0: 1.0}},
        {"a": {0: 1.0, 1: 2.0, 2: 3.0}},
        {"a": {0: 1.0}, "b": {0: 99.0}},  # one seed
        {"a": {0: 1.0, 1: 1.1}, "b": {2: 98.0, 3: 99.0}},  # no shared one
        {"a": {0: 1.0, 1: 1.1}, "b": {1: 99.0}},  # one shared one
    ],
)
def test_rows_that_seeds_cannot_compare_may_all_be_the_best(scores):
    found = against_best(scores)
    assert found.best() == tuple(scores) and found.smallest is None


def test_scores_without_spread_are_decided_by_their_size():
    scores = {"a": {0: 1.0, 1: 2.0, 2: 3.0}, "same": {0: 1.0, 1: 2.0, 2: 3.0}, "b": {0: 1.1, 1: 2.2, 2: 3.3}}
    assert against_best(scores).best() == ("a", "same")


def test_a_row_that_lacks_seeds_is_compared_by_those_that_it_has():
    """Seeds 3 and 4 are hard: without them a row looks better than it is, and loses nobody the others' seeds."""
    rng = np.random.default_rng(9)
    seeds = np.array([0, 0, 0, 2.0, 2.0])
    table = {k: dict(enumerate(np.exp(seeds + 0.02 * rng.normal(size=5) + level))) for k, level in
             {"best": 0.0, "worse": 0.3, "lacking": 0.3, "near": 0.001}.items()}  # fmt: skip
    table["lacking"] = {seed: table["lacking"][seed] for seed in range(3)}
    found = against_best(table)
    assert set(found.best()) == {"best", "near"} == {*found.names[:2]}
    single = against_best({**table, "lacking": {0: table["lacking"][0]}})
    assert set(single.best()) == {"best", "near"} and single.smallest == pytest.approx(found.smallest, rel=0.2)


def test_rows_are_in_the_order_of_their_means_adjusted_for_the_seeds_that_one_lacks():
    """Seed 2 is hard, and the row without it is no better than one with it."""
    dense = {0: 10.0, 1: 10.2, 2: 22.0}
    assert against_best({"route": {0: 10.4, 1: 10.5}, "dense": dense}).names == ("dense", "route")
    assert against_best({"route": {2: 21.0}, "dense": dense}).names == ("route", "dense")
    assert against_best({"b": dense, "a": dense}).names == ("b", "a")
    assert against_best({"high": {8: 12.0, 9: 11.0}, "low": {0: 10.0}}).names == ("low", "high")  # not comparable


def test_missing_scores_are_those_of_a_linear_model_without_them():
    rng = np.random.default_rng(10)
    full = {(row, seed): math.exp(rng.normal() + row) for row in range(3) for seed in range(4)}
    there = {key: value for key, value in full.items() if key not in {(0, 1), (2, 3)}}
    found = against_best({str(row): {s: v for (r, s), v in there.items() if r == row} for row in range(3)})
    design = np.array([[row == 1, row == 2, 1, *(seed == s for s in range(1, 4))] for row, seed in there], dtype=float)
    effects, (squares,), rank, _ = np.linalg.lstsq(design, np.log(list(there.values())))
    variance = squares / (len(there) - rank) * np.linalg.inv(design.T @ design)
    assert rank == 6 and np.exp(np.diff([0, *effects[:2]])).min() > 1
    smallest = stats.t.ppf(0.975, 4) * np.sqrt(min(variance[0, 0], variance[1, 1]))
    smallest_between = np.sqrt(variance[0, 0] + variance[1, 1] - 2 * variance[0, 1]) * stats.t.ppf(0.975, 4)
    assert found.smallest == pytest.approx(math.expm1(min(smallest, smallest_between)), rel=0.02)


def test_scores_that_are_not_positive_are_compared_as_they_are():
    scores = {"a": {0: 0.0, 1: 0.1, 2: 0.2}, "b": {0: 5.0, 1: 5.2, 2: 5.1}}
    found = against_best(scores)
    assert not found.is_relative and found.best() == ("a",)
    assert found.smallest == pytest.approx(stats.t.ppf(0.975, 2) * np.std([5.0, 5.1, 4.9], ddof=1) / math.sqrt(3))
    with pytest.raises(ValueError, match="finite"):
        against_best({"a": {0: math.inf, 1: 1.0}, "b": {0: 1.0, 1: 2.0}})


@pytest.mark.parametrize(("rows", "freedom"), [(4, 9), (7, 24), (9, 8), (17, 64)])
def test_dunnetts_constant_is_that_of_the_multivariate_t(rows, freedom):
    shape = np.full((rows - 1, rows - 1), 0.5) + 0.5 * np.eye(rows - 1)
    at_most = stats.multivariate_t(shape=shape, df=freedom, seed=0).cdf(
        np.full(rows - 1, _critical_value(rows, freedom, 0.5)), maxpts=100_000
    )
    assert at_most == pytest.approx(0.95, abs=5e-4)


@pytest.mark.parametrize(("rows", "freedom", "table"), [(5, 10, 2.47), (10, 10**6, 2.42)])
def test_dunnetts_constant_is_the_published_one(rows, freedom, table):
    """Dunnett (1955), table 1a: one-sided, 95 %: 4 comparisons, and 9 with infinite degrees of freedom."""
    assert _critical_value(rows, freedom, 0.5) == pytest.approx(table, abs=0.01)


def test_for_up_to_three_rows_the_two_sided_point_is_the_larger():
    assert _critical_value(3, 8, 0.5) == pytest.approx(stats.t.ppf(0.975, 8))
    assert _critical_value(2, 4, 0.5) == pytest.approx(stats.t.ppf(0.975, 4))


def _drawn(rows: int, seeds: int, trials: int, spreads: np.ndarray, ahead: float = 0.0) -> np.ndarray:
    """FIDs (trials, rows, seeds) near 20, spreads of 3 %.

    The first row is `ahead` of the others by so many of their root mean square spreads.
    """
    rng = np.random.default_rng(1000 * rows + seeds)
    noise = rng.normal(size=(trials, rows, seeds)) * (spreads / np.sqrt(np.mean(spreads**2)))[:, None]
    noise[:, 0] -= ahead
    return 20 * np.exp(0.03 * (noise + 2 * rng.normal(size=(trials, 1, seeds))))


def _may_be_best(fids: np.ndarray) -> np.ndarray:
    """Which rows may be the best, (trials, rows), of FIDs (trials, rows, seeds), in the closed form where none lacks.

    Effects are means over seeds, and residuals what is left without the means of rows and seeds.
    """
    _, rows, seeds = fids.shape
    logs, freedom = np.log(fids), (rows - 1) * (seeds - 1)
    effects = logs.mean(axis=2)
    residuals = logs - effects[:, :, None] - logs.mean(axis=1, keepdims=True) + logs.mean(axis=(1, 2), keepdims=True)
    squares = (residuals**2).sum(axis=2)
    pooled, own = squares.sum(axis=1) / freedom, squares * rows / freedom
    variance = np.maximum(pooled[:, None, None], (own[:, :, None] + own[:, None, :]) / 2)
    least = _critical_value(rows, freedom, 0.5) * np.sqrt(variance * 2 / seeds)
    return ~(effects[:, :, None] - effects[:, None, :] >= least).any(axis=2)


@pytest.mark.parametrize(("rows", "seeds"), [(2, 5), (3, 3), (7, 5), (17, 10)])
def test_with_all_scores_the_rows_that_may_be_the_best_follow_from_means(rows, seeds):
    fids = np.concatenate([_drawn(rows, seeds, 10, np.geomspace(1, 4, rows), ahead) for ahead in (0, 1, 2)])
    for table, expected in zip(fids, _may_be_best(fids), strict=True):
        found = against_best({str(k): dict(enumerate(row)) for k, row in enumerate(table)}).best()
        assert {int(name) for name in found} == {*np.flatnonzero(expected).tolist()}


def _lost_and_kept(rows: int, seeds: int, trials: int, spreads: np.ndarray, ahead: float = 0.0) -> tuple[float, ...]:
    """Shares of trials that lose the first row and the last, of rows that are lost, and the mean number kept."""
    kept = _may_be_best(_drawn(rows, seeds, trials, spreads, ahead))
    return 1 - kept[:, 0].mean(), 1 - kept[:, -1].mean(), 1 - kept.mean(), kept.sum(axis=1).mean()


# rows, seeds -> mean number of rows kept where the best is 1 and 3 standard deviations ahead, at most
POWER = {
    (3, 3): (2.8, 1.7), (3, 5): (2.6, 1.1), (3, 10): (2.1, 1.0),
    (7, 3): (6.5, 2.6), (7, 5): (6.0, 1.3), (7, 10): (4.7, 1.0),
    (17, 3): (16.0, 5.7), (17, 5): (15.1, 1.9), (17, 10): (12.3, 1.0),
}  # fmt: skip


@pytest.mark.parametrize(("rows", "seeds"), POWER)
def test_error_and_power_of_the_comparison_with_the_best(rows, seeds):
    """docs/methods/statistics.md says: with normal residuals the best is lost in at most 5 %.

    In 6 % where spreads differ up to fourfold.
    """
    trials = 1500

    def at_most(share: float) -> float:
        return share + 3 * math.sqrt(share * (1 - share) / trials)

    _, _, lost, _ = _lost_and_kept(rows, seeds, trials, np.ones(rows))
    assert lost <= at_most(0.05)
    narrowest, widest, lost, _ = _lost_and_kept(rows, seeds, trials, np.geomspace(1, 4, rows))
    assert lost <= at_most(0.06) and max(narrowest, widest) <= at_most(0.08)
    for ahead, most in zip((1, 3), POWER[rows, seeds], strict=True):
        lost, _, _, kept = _lost_and_kept(rows, seeds, trials // 5, np.ones(rows), ahead)
        assert lost <= 0.02 and 1 <= kept <= most + 0.1


@pytest.mark.parametrize("rows", [2, 3, 7])
def test_of_two_rows_that_are_equally_good_one_is_called_the_only_best_in_at_most_5_percent(rows):
    rng = np.random.default_rng(rows)
    levels = np.array([0, 0] + [6] * (rows - 2))[:, None]
    kept = _may_be_best(np.exp(rng.normal(size=(2000, rows, 5)) + levels))
    assert (kept.sum(axis=1) == 1).mean() <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 2000)


@pytest.mark.parametrize(
    ("losses", "rates"),
    [
        ({0.0: 1.0, 0.3: 1.04, 0.5: 1.05, 0.7: 1.3, 0.9: 2.0}, (0.5, 0.9, True)),
        ({0.0: 1.1, 0.5: 1.0, 0.9: 1.2}, (0.5, 0.9, False)),  # nothing is clearly worse: the largest
        ({0.0: 1.0, 0.1: 1.6, 0.9: 9.0}, (0.0, 0.1, True)),
        ({0.0: 1.0, 0.1: 1.5, 0.9: 9.0}, (0.0, 0.1, True)),  # at least that much above the smallest
        ({0.0: 1.0, 0.9: 1.0}, None),
    ],
)
def test_rates_of_sparse_guidance_are_where_the_loss_still_is_low_and_where_it_no_longer_is(losses, rates):
    assert guidance_rates(losses) == rates


def test_paired_tests_are_adjusted_over_all_of_them():
    a, b, alone = {0: 1.0, 1: 2.1, 2: 2.9}, {0: 0.0, 1: 1.0, 2: 2.0}, {7: 1.0}
    assert paired_p_values([(a, b), (b, a), (a, alone)]) == holm([paired_p_value(a, b)] * 2 + [1.0])
