"""What is said at equal cost, against curves whose truth is known. The figures are those of docs/methods/statistics.md.

log FID falls with log MACs, more slowly towards the end. The noise of a seed has three parts: what all rows of a seed
share, what one training has to itself at all its evaluations, and what each evaluation adds. In `route_placement` (400
iterations, 512 samples) their standard deviations are 0.12, at most 0.02, and 0.05 of log FID.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy import interpolate, stats

from tread_bench.core.numbers.curves import Curve, over_seeds
from tread_bench.core.numbers.statistics import LEVEL, detectable_difference, mean_interval

RUNS = 2000
SHARED, OWN, EACH = 0.12, 0.02, 0.05  # standard deviations of log FID
POINTS = np.arange(1, 9) / 8  # costs of the reference's evaluations, of its whole cost
SHARES = (0.60, 0.66, 0.72, 0.78, 0.84, 0.90)  # cost of each row of a family, without budgets


def law(cost):
    """FID of the reference, in the mean, at a share of its whole cost; log FID against log cost: slope -1.1 to -0.6."""
    x = np.log(cost)
    return 17.0 * np.exp(-0.6 * x + 0.12 * x**2)


def noise(rng, runs, rows, seeds):
    """Factors of the FIDs, (runs, rows, seeds, points)."""
    shared = rng.normal(0, SHARED, (runs, 1, seeds, 1))
    own = rng.normal(0, OWN, (runs, rows, seeds, 1))
    each = rng.normal(0, EACH, (runs, rows, seeds, len(POINTS)))
    return np.exp(shared + own + each - (SHARED**2 + OWN**2 + EACH**2) / 2)


class Curves:
    """`Curve` for whole arrays of values (..., points), all at the same costs."""

    def __init__(self, values):
        """Isotonic by the min-max formula: the smallest, over starts up to a point, of the largest mean from there."""
        sums = np.concatenate([np.zeros((*values.shape[:-1], 1)), np.log(values).cumsum(axis=-1)], axis=-1)
        count = values.shape[-1]

        def mean(start, end):
            return (sums[..., end + 1] - sums[..., start]) / (end + 1 - start)

        def largest(start, point):
            return np.max([mean(start, end) for end in range(point, count)], axis=0)

        fitted = [np.min([largest(start, k) for start in range(k + 1)], axis=0) for k in range(count)]
        self.fitted = np.stack(fitted, axis=-1)
        self.log_value = interpolate.PchipInterpolator(np.log(POINTS), self.fitted, axis=-1)

    @property
    def end(self):
        return np.exp(self.fitted[..., -1])

    def value_at(self, costs):
        """(..., costs)."""
        return np.exp(self.log_value(np.log(costs)))

    def cost_at(self, values):
        """(...), by bisection; infinite where the fit does not come down to the value."""
        target = np.log(values)
        is_reached = self.fitted <= target[..., None] + 1e-9
        after = np.maximum(is_reached.argmax(axis=-1), 1)
        low, high = np.log(POINTS)[after - 1], np.log(POINTS)[after]
        start = low
        cubic = np.take_along_axis(self.log_value.c, (after - 1)[None, None], axis=1)[:, 0]
        for _ in range(50):
            middle = (low + high) / 2
            is_above = np.polyval(cubic, middle - start) > target
            low, high = np.where(is_above, middle, low), np.where(is_above, high, middle)
        costs = np.where(is_reached[..., 0], np.log(POINTS[0]), high)
        return np.where(is_reached.any(axis=-1), np.exp(costs), np.inf)


def test_curves_of_whole_arrays_are_those_of_each():
    values = law(POINTS) * noise(np.random.default_rng(18), 20, 2, 5)
    own, references = Curves(values[:, 0]), Curves(values[:, 1])
    at_shares, costs = own.value_at(SHARES), own.cost_at(references.end)
    for run, seed in np.ndindex(20, 5):
        one, reference = (Curve(tuple(POINTS), tuple(values[run, side, seed])) for side in (0, 1))
        assert [one.value_at(share) for share in SHARES] == pytest.approx(at_shares[run, seed])
        assert reference.end == pytest.approx(references.end[run, seed])
        assert one.cost_at(reference.end) == pytest.approx(costs[run, seed])
    assert 0.2 < np.isfinite(costs).mean() < 0.8


@cache
def drawn(seeds):
    """FIDs of the rows of `SHARES` at their ends, as good as the reference, and of the reference at the same costs.

    (runs, rows, seeds) each.
    """
    factors = noise(np.random.default_rng(16), RUNS, len(SHARES) + 1, seeds)
    ends = law(np.array(SHARES))[:, None] * factors[:, 1:, :, -1]
    references = Curves(law(POINTS) * factors[:, 0]).value_at(SHARES)
    return ends, references.swapaxes(1, 2)


def families(seeds, factor=1.0):
    """Differences at equal cost (runs, rows, seeds): rows end at `factor` times the reference."""
    ends, references = drawn(seeds)
    return factor * ends - references


@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_the_interval_at_equal_cost_covers_the_true_difference(seeds, record_property):
    differences = families(seeds, factor=0.95)
    for row, share in enumerate(SHARES):
        truth = -0.05 * law(share)
        covered = np.mean([one.low <= truth <= one.high for one in map(mean_interval, differences[:, row])])
        record_property(f"covered at {share}, {seeds} seeds", float(covered))
        assert covered >= 0.93


def test_a_gain_of_detectable_size_is_found_in_80_percent_of_runs(record_property):
    spread = families(5)[:, 0].std(axis=1, ddof=1)
    five = np.array([-1, -0.5, 0, 0.5, 1.0]) / np.std([-1, -0.5, 0, 0.5, 1.0], ddof=1)
    least = detectable_difference(five * np.sqrt(np.mean(spread**2)), tests=len(SHARES))
    differences = families(5)[:, 0] - least
    power = np.mean(stats.ttest_1samp(differences, 0, axis=-1).pvalue <= LEVEL / len(SHARES))
    record_property("power at the detectable difference", (float(least), float(power)))
    assert power == pytest.approx(0.8, abs=0.05)


@pytest.mark.parametrize("seeds", [5, 10])
@pytest.mark.parametrize("ratio", [0.6, 0.8, 0.95, 1.0, 1.05])
def test_the_interval_of_the_cost_to_reach_a_target_covers_it(seeds, ratio, record_property):
    factors = noise(np.random.default_rng(17), RUNS, 2, seeds)
    targets = Curves(law(POINTS) * factors[:, 1]).end
    ratios = np.sort(Curves(law(POINTS / ratio) * factors[:, 0]).cost_at(targets), axis=1)

    # The order statistics that are the ends of the interval; where no seed reached the target: more than was trained.
    ranks = over_seeds(range(1, seeds + 1))
    low, high = (ratios[:, int(rank) - 1] for rank in (ranks.low, ranks.high))
    covered = np.mean((np.minimum(low, 1.0) <= ratio) & (ratio <= high))
    record_property(f"covered, {seeds} seeds, truth {ratio}", float(covered))
    record_property(f"reached, {seeds} seeds, truth {ratio}", float(np.isfinite(ratios).mean()))
    assert covered >= 0.93
