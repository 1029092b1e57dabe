"""The two errors of the speed rule, measured on recorded timings that are scaled to a known noise."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from tread_bench.regression.findings import Verdict
from tread_bench.regression.speed import LIMIT, PAIRS, judge

CHECKS = 2000
NOISE = 0.02  # standard deviation of a pair, the most that a machine may have that is fit to judge


def shapes() -> list[np.ndarray]:
    """Log ratios of each recorded measurement, about 0 and of standard deviation NOISE; tails as they were."""
    recorded = json.loads((Path(__file__).parent / "recorded_pairs.json").read_text())["measurements"]
    logs = [np.log(np.divide(one["reference_ms"], one["subject_ms"])) for one in recorded]
    return [(log - np.median(log)) / log.std(ddof=1) * NOISE for log in logs]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("speed", "verdict", "least", "most"),
    [
        (1.0, Verdict.FAIL, 0.0, 0.001),
        (1.0, Verdict.PASS, 0.9, 1.0),
        (0.9, Verdict.FAIL, 0.99, 1.0),
        (1.1, Verdict.PASS, 0.99, 1.0),
    ],
)
def test_the_rule_errs_as_seldom_as_it_says(speed, verdict, least, most):
    """Noise within a run; what one process has over another for all its life is not in it."""
    rng, recorded, found = np.random.default_rng(0), shapes(), []
    for check in range(CHECKS):
        old, new = rng.choice(recorded[check % len(recorded)], (2, PAIRS))
        found.append(judge({"row": (old, new + math.log(speed))}, LIMIT)["row"][0])
    share = found.count(verdict) / len(found)
    print(f"routed / dense {speed:g} of the accepted one, {PAIRS} pairs each, noise {NOISE:.0%}: {share:.2%} {verdict}")
    assert least <= share <= most


@pytest.mark.parametrize("cells", [1, 50, pytest.param(300, marks=pytest.mark.slow)])
def test_a_cell_can_fail_among_any_number_of_others(cells):
    rng = np.random.default_rng(0)
    timings = {str(k): rng.normal(0, 0.005, (2, PAIRS)) for k in range(cells)}
    timings["0"][1] += math.log(0.5)
    judged = judge({name: tuple(sides) for name, sides in timings.items()}, LIMIT)
    assert [cell for cell, one in judged.items() if one[0] is Verdict.FAIL] == ["0"]
