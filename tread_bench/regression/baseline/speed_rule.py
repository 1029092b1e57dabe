"""When a change counts as slower: a rule with known error rates, over paired timings.

The speed of a cell is the ratio old / new of step times measured side by side: 1 is no change, below 1 is slower.
A cell fails where the upper bound of the median ratio lies below `LIMIT` (Holm over the cells), passes where the whole
interval lies above it, and is undecided otherwise: more pairs, then `inconclusive`.
`tests/regression/baseline/test_error_rates.py` measures both errors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
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


def judge_speed(log_ratios: Mapping[str, ArrayLike], limit: float = LIMIT) -> dict[str, SpeedJudgement]:
    """Return a judgement from each cell's paired log ratios log(old / new). Raises ValueError with fewer than two
    pairs.
    """
    medians = {cell: float(np.median(np.asarray(values))) for cell, values in log_ratios.items()}
    count = _resamples(len(log_ratios))
    boots = {cell: _bootstrap_medians(values, count) for cell, values in log_ratios.items()}
    return _judge(medians, boots, {cell: len(np.asarray(values)) for cell, values in log_ratios.items()}, limit)


def judge_shift(samples: Mapping[str, tuple[ArrayLike, ArrayLike]], limit: float = LIMIT) -> dict[str, SpeedJudgement]:
    """Judge by the same rule where the two sides are not paired: log speed-ups of an accepted run and of a new one."""
    medians = {
        cell: float(np.median(np.asarray(new)) - np.median(np.asarray(old))) for cell, (old, new) in samples.items()
    }
    count = _resamples(len(samples))
    boots = {
        cell: _bootstrap_medians(new, count, seed=1) - _bootstrap_medians(old, count)
        for cell, (old, new) in samples.items()
    }
    return _judge(medians, boots, {cell: len(np.asarray(new)) for cell, (_, new) in samples.items()}, limit)


def _judge(
    medians: Mapping[str, float], boots: Mapping[str, NDArray[np.float64]], pairs: Mapping[str, int], limit: float
) -> dict[str, SpeedJudgement]:
    raw = [float((1 + np.count_nonzero(boot >= math.log(limit))) / (1 + len(boot))) for boot in boots.values()]
    adjusted = dict(zip(boots, holm(raw), strict=True))
    judged = {}
    for cell, boot in boots.items():
        low, high = np.exp(np.quantile(boot, [_TAIL, 1 - _TAIL]))
        verdict = Verdict.INCONCLUSIVE
        if adjusted[cell] <= _TAIL:
            verdict = Verdict.FAIL
        elif low > limit:
            verdict = Verdict.PASS
        ratio = math.exp(medians[cell])
        judged[cell] = SpeedJudgement(verdict, ratio, float(low), float(high), adjusted[cell], pairs[cell])
    return judged


def _resamples(cells: int) -> int:
    return max(_RESAMPLES, _RESAMPLES_PER_CELL * cells)


def _bootstrap_medians(values: ArrayLike, resamples: int, seed: int = 0) -> NDArray[np.float64]:
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
