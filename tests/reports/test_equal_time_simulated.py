"""The interval at equal time, against curves and clocks whose truth is known: the shares of docs/methods/decision.md.

A row of the curves of test_curves_simulated.py is evaluated where the measured speed-up puts equal time, and compared
with the reference's end; the true difference is that at the true speed-up.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.reports.test_curves_simulated import EACH, OWN, SHARED, law
from tread_bench.core.numbers.curves import slope
from tread_bench.core.numbers.statistics import hull, paired_difference

RUNS = 2000
SPEEDUP, END = 1.25, 1.4  # of the row; its training, of that of the reference
FACTOR = 0.9  # of its FID, to that of the reference after as many iterations


def coverage(clock: float, knows_clock: bool = True, seeds: int = 5) -> float:
    """How often the 95 % interval has the true difference; `clock` is the relative error of the speed-up."""
    rng = np.random.default_rng(0)
    truth = FACTOR * law(SPEEDUP) - law(1.0)
    return np.mean([_covers(truth, clock, knows_clock, seeds, rng) for _ in range(RUNS)])


def _covers(truth, clock, knows_clock, seeds, rng):
    # What is measured: at equal time by the clock, on the way there, and at the reference's end.
    error = 1 + clock * rng.normal()
    there = SPEEDUP * error
    points = [*np.arange(1, 9) / 8, END, there]
    level = np.exp(rng.normal(0, SHARED, seeds))
    own = level * np.exp(rng.normal(0, OWN, seeds))
    fids = {at: own * FACTOR * law(at) * np.exp(rng.normal(0, EACH, seeds)) for at in points}
    dense = level * law(1.0) * np.exp(rng.normal(0, OWN, seeds) + rng.normal(0, EACH, seeds))

    # As it is compared.
    near = [at for at in points if at >= there / 2]
    fall = slope(near, [fids[at].mean() for at in near])
    half = 1.96 * clock * knows_clock
    shifts = [0.0, *(fall * math.log(1 + end) for end in (-half, half))]
    reference = dict(enumerate(dense))
    found = hull([paired_difference(dict(enumerate(fids[there] + shift)), reference) for shift in shifts])
    return found.low <= truth <= found.high


@pytest.mark.parametrize(("clock", "least"), [(0.0, 0.93), (0.02, 0.95), (0.04, 0.95)])
def test_the_interval_at_equal_time_covers_the_truth_whatever_the_error_of_the_clock(clock, least):
    assert coverage(clock) >= least


def test_an_interval_of_the_seeds_alone_would_not():
    assert coverage(0.04, knows_clock=False) < 0.94
