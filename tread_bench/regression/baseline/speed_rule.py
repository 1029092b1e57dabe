"""When a change counts as slower: a rule with known error rates, over paired timings.

The speed of a cell is the ratio old / new of step times measured side by side: 1 is no change, below 1 is slower.
A cell fails where the upper bound of the median ratio lies below `LIMIT` (Holm over the cells), passes where the whole
interval lies above it, and is undecided otherwise: more pairs, then `inconclusive`.
`tests/regression/baseline/test_error_rates.py` measures both errors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import chi2

from tread_bench.core.numbers.statistics import holm
from tread_bench.regression.baseline.findings import Verdict

LIMIT = 0.97  # a loss of speed of up to 3 % is not distinguishable from none
CONFIDENCE = 0.99
PAIRS = 20
MOST_PAIRS = 60
LARGEST_SPREAD = 0.02  # of the control's pairs (standard deviation of log ratios) on a machine that is quiet enough
_TAIL = (1 - CONFIDENCE) / 2
_RESAMPLES = 9_999  # at least; Holm over many cells needs p-values of a finer resolution
_RESAMPLES_PER_CELL = 400  # so that the smallest adjusted p-value, cells / (resamples + 1), is half of _TAIL


@dataclass(frozen=True, slots=True)
class SpeedJudgement:
    """Median ratio old / new with its 99 % bootstrap interval, and the adjusted p-value of "not below the limit"."""

    verdict: Verdict
    ratio: float
    low: float
    high: float
    p_value: float
    pairs: int


def judge_speed(log_ratios: Mapping[str, ArrayLike]) -> dict[str, SpeedJudgement]:
    """Return a judgement from each cell's paired log ratios log(old / new). Raises ValueError with fewer than two
    pairs.
    """
    return _judge({cell: [values] for cell, values in log_ratios.items()})


def judge_shift(samples: Mapping[str, tuple[ArrayLike, ArrayLike]]) -> dict[str, SpeedJudgement]:
    """Judge by the same rule where the two sides are not paired: log speed-ups of an accepted run and of a new one."""
    return _judge(samples)


def _judge(samples: Mapping[str, Sequence[ArrayLike]]) -> dict[str, SpeedJudgement]:
    """Of each cell's log ratios, or of how far those of its new side, the last, are from those of its old one."""
    # The shift of each cell, and of its resamples.
    resamples = max(_RESAMPLES, _RESAMPLES_PER_CELL * len(samples))
    shifts, boots = {}, {}
    for cell, sides in samples.items():
        *old, new = (float(np.median(np.asarray(side))) for side in sides)
        *old_boots, new_boots = (_bootstrap_medians(side, resamples, seed) for seed, side in enumerate(sides))
        shifts[cell] = new - sum(old)
        boots[cell] = new_boots - sum(old_boots)

    # The verdict on each.
    raw = [float((1 + np.count_nonzero(boot >= math.log(LIMIT))) / (1 + len(boot))) for boot in boots.values()]
    judged = {}
    for (cell, boot), p_value in zip(boots.items(), holm(raw), strict=True):
        low, high = np.exp(np.quantile(boot, [_TAIL, 1 - _TAIL]))
        verdict = Verdict.INCONCLUSIVE
        if p_value <= _TAIL:
            verdict = Verdict.FAIL
        elif low > LIMIT:
            verdict = Verdict.PASS
        pairs = len(np.asarray(samples[cell][-1]))
        judged[cell] = SpeedJudgement(verdict, math.exp(shifts[cell]), float(low), float(high), p_value, pairs)
    return judged


def _bootstrap_medians(values: ArrayLike, resamples: int, seed: int) -> NDArray[np.float64]:
    """Medians of resamples with replacement (Efron 1979); the same values give the same ones, in any order."""
    sample = np.asarray(values, dtype=np.float64)
    if len(sample) < 2 or not np.isfinite(sample).all():
        raise ValueError(f"{len(sample)} pairs: a verdict needs two or more, all of them finite")
    lower, upper = _middle_ranks(len(sample), resamples, seed)
    ordered = np.sort(sample)
    return (ordered[lower] + ordered[upper]) / 2


@lru_cache(maxsize=8)
def _middle_ranks(count: int, resamples: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which of `count` values in ascending order are the middle ones of each resample: drawn once for all samples."""
    drawn = np.random.default_rng(seed).integers(count, size=(resamples, count))
    lower, upper = (count - 1) // 2, count // 2
    drawn.partition((lower, upper), axis=1)
    return drawn[:, lower].copy(), drawn[:, upper].copy()


def spread(log_ratios: ArrayLike) -> float:
    """Standard deviation of paired log ratios: about the relative noise of one pair."""
    return float(np.std(np.asarray(log_ratios, dtype=np.float64), ddof=1))


def is_fit(control: ArrayLike, limit: float = LIMIT) -> bool:
    """Return whether a control of a version against itself shows that the machine is quiet enough.

    It is not where the spread exceeds `largest_spread` by more than chance: where the lower bound of its interval does,
    s·√((n − 1) / χ²), at `CONFIDENCE` (normal noise). Else half of all checks at exactly that spread get no verdict.
    """
    freedom = len(np.asarray(control)) - 1
    lower = spread(control) * math.sqrt(freedom / float(chi2.ppf(CONFIDENCE, freedom)))
    return lower <= largest_spread(limit)


def largest_spread(limit: float) -> float:
    """Return the largest spread that pairs may have: 2 % where a loss of 3 % is to be detected, and in proportion."""
    return LARGEST_SPREAD * (1 - limit) / (1 - LIMIT)
