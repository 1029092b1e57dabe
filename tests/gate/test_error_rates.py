"""The two errors of the speed rule, measured on recorded timings that are scaled to a known noise."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from tread_bench.gate.findings import Verdict
from tread_bench.gate.speed_rule import MOST_PAIRS, PAIRS, judge_speed

CHECKS = 2000
NOISE = 0.02  # standard deviation of a pair, the most that a machine may have that is fit to judge


def shapes() -> list[np.ndarray]:
    """Log ratios of each recorded measurement, about 0 and of standard deviation NOISE; tails as they were."""
    recorded = json.loads((Path(__file__).parent / "recorded_pairs.json").read_text())["measurements"]
    logs = [np.log(np.divide(one["reference_ms"], one["subject_ms"])) for one in recorded]
    return [(log - np.median(log)) / log.std(ddof=1) * NOISE for log in logs]


def verdicts(speed: float, pairs: int) -> list[Verdict]:
    """Of checks of one cell whose new version has `speed` times the old one's speed."""
    rng, recorded = np.random.default_rng(0), shapes()
    found = []
    for check in range(CHECKS):
        drawn = rng.choice(recorded[check % len(recorded)], pairs) + math.log(speed)
        found.append(judge_speed({"cell": drawn})["cell"].verdict)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("speed", "pairs", "verdict", "least", "most"),
    [
        (1.0, PAIRS, Verdict.FAIL, 0.0, 0.001),
        (1.0, MOST_PAIRS, Verdict.FAIL, 0.0, 0.001),
        (0.95, MOST_PAIRS, Verdict.FAIL, 0.97, 1.0),
        (0.92, PAIRS, Verdict.FAIL, 0.99, 1.0),
        (1.0, MOST_PAIRS, Verdict.PASS, 0.97, 1.0),
    ],
)
def test_the_rule_errs_as_seldom_as_it_says(speed, pairs, verdict, least, most):
    found = verdicts(speed, pairs)
    share = found.count(verdict) / len(found)
    print(f"speed {speed:g} of the old one, {pairs} pairs, noise {NOISE:.0%}: {share:.2%} {verdict} of {CHECKS} checks")
    assert least <= share <= most
