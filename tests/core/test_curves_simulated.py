"""What is said at equal cost, against curves whose truth is known. The figures are those of docs/methods/statistics.md.

log FID falls with log MACs, more slowly towards the end. The noise of a seed has three parts: what all rows of a seed
share, what one training has to itself at all its evaluations, and what each evaluation adds. In `route_placement` (400
iterations, 512 samples) their standard deviations are 0.12, at most 0.02, and 0.05 of log FID.
"""

from __future__ import annotations

import numpy as np
import pytest

from tread_bench.core.curves import Curve, over_seeds
from tread_bench.core.power import detectable_difference
from tread_bench.core.statistics import LEVEL, holm, mean_interval, paired_p_value

pytestmark = pytest.mark.slow

RUNS = 2000
SHARED, OWN, EACH = 0.12, 0.02, 0.05  # standard deviations of log FID
POINTS = np.arange(1, 9) / 8  # costs of the reference's evaluations, of its whole cost
SHARES = (0.60, 0.66, 0.72, 0.78, 0.84, 0.90)  # cost of each row of a family, without budgets

POWER = {3: (0.03, 0.07, 0.15), 5: (0.06, 0.36, 0.84), 10: (0.23, 0.97, 1.0)}  # share of rows 5, 10 and 15 % lower


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


def families(seeds, factor=1.0, runs=RUNS):
    """Differences at equal cost (runs, rows, seeds): rows of `SHARES` end at `factor` times the reference."""
    factors = noise(np.random.default_rng(16), runs, len(SHARES) + 1, seeds)
    ends = factor * law(np.array(SHARES))[:, None] * factors[:, 1:, :, -1]
    references = np.empty_like(ends)
    for run, seed in np.ndindex(runs, seeds):
        curve = Curve(tuple(POINTS), tuple(law(POINTS) * factors[run, 0, seed]))
        references[run, :, seed] = [curve.value_at(share) for share in SHARES]
    return ends - references


def said(differences):
    """The outcome of each row of one family (rows, seeds): -1 better, 1 worse, 0 neither."""
    zero = dict.fromkeys(range(differences.shape[1]), 0.0)
    adjusted = holm([paired_p_value(dict(enumerate(row)), zero) for row in differences])
    return np.where(np.array(adjusted) <= LEVEL, np.sign(differences.mean(axis=1)), 0)


@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_the_interval_at_equal_cost_covers_the_true_difference(seeds, record_property):
    differences = families(seeds, factor=0.95)
    for row, share in enumerate(SHARES):
        truth = -0.05 * law(share)
        covered = np.mean([not mean_interval(run).excludes(truth) for run in differences[:, row]])
        record_property(f"covered at {share}, {seeds} seeds", float(covered))
        assert covered >= 0.93


@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_without_an_effect_hardly_a_family_has_a_row_called_better(seeds, record_property):
    outcomes = np.array([said(family) for family in families(seeds)])
    for name, sign in (("better", -1), ("worse", 1)):
        share = float((outcomes == sign).any(axis=1).mean())
        record_property(f"a row called {name} without an effect, {seeds} seeds", float(share))
        assert share <= 0.05


@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_power_is_what_is_stated(seeds, record_property):
    for gain, stated in zip((0.05, 0.10, 0.15), POWER[seeds], strict=True):
        found = np.mean([said(family) == -1 for family in families(seeds, 1 - gain, runs=500)])
        record_property(f"called better, {seeds} seeds, {gain} lower", float(found))
        assert found == pytest.approx(stated, abs=0.03)


def test_a_gain_of_detectable_size_is_found_in_80_percent_of_runs(record_property):
    spread = families(5)[:, 0].std(axis=1, ddof=1)
    five = np.array([-1, -0.5, 0, 0.5, 1.0]) / np.std([-1, -0.5, 0, 0.5, 1.0], ddof=1)
    least = detectable_difference(five * np.sqrt(np.mean(spread**2)), tests=len(SHARES))
    differences = families(5)[:, 0] - least
    p_values = [paired_p_value(dict(enumerate(run)), dict.fromkeys(range(5), 0.0)) for run in differences]
    power = np.mean(np.array(p_values) <= LEVEL / len(SHARES))
    record_property("power at the detectable difference", (float(least), float(power)))
    assert power == pytest.approx(0.8, abs=0.05)


@pytest.mark.parametrize("seeds", [5, 10])
@pytest.mark.parametrize("ratio", [0.6, 0.8, 0.95, 1.0, 1.05])
def test_the_interval_of_the_cost_to_reach_a_target_covers_it(seeds, ratio, record_property):
    factors = noise(np.random.default_rng(17), RUNS, 2, seeds)
    costs = tuple(POINTS)
    covered = reached = 0
    for rows, references in zip(law(POINTS / ratio) * factors[:, 0], law(POINTS) * factors[:, 1], strict=True):
        targets = [Curve(costs, tuple(reference)).end for reference in references]
        found = over_seeds(Curve(costs, tuple(row)).cost_at(end) for row, end in zip(rows, targets, strict=True))
        low = min(found.low, 1.0)  # where no seed reached it: more than was trained
        covered += low <= ratio <= found.high
        reached += found.reached
    record_property(f"covered, {seeds} seeds, truth {ratio}", float(covered / RUNS))
    record_property(f"reached, {seeds} seeds, truth {ratio}", float(reached / RUNS / seeds))
    assert covered / RUNS >= 0.93
