"""Whether two measurements put the same items in the same order: Spearman's rank correlation. No torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from tread_bench.core.numbers.statistics import CONFIDENCE, MeanInterval

FEWEST = 8  # items, below which an interval says nothing


def rank_correlation(
    pairs: Sequence[tuple[ArrayLike, ArrayLike]], confidence: float = CONFIDENCE, given: ArrayLike | None = None
) -> MeanInterval | None:
    """Return the mean over pairs of Spearman's rank correlation of two measurements, with its interval.

    The interval is that of a single pair, by Fisher's z with the standard error sqrt((1 + r²/2) / (n - 3)) of Bonett
    and Wright (2000): the pairs are of the same items, so that several say hardly more than one. An order without any
    difference counts as one in which two neighbours have changed places. docs/methods/choosing-a-place.md has the
    simulated coverage.

    Args:
        pairs: each of two measurements of the same n items, (n,).
        given: a group for each item, (n,): the correlation is the partial one, of what ranks are beyond the mean of
            their group. Every group beyond the first costs the interval one item (Fisher 1924).

    Returns:
        None where all items of a measurement are equal, so that there is no order; and where those of each group are,
        or the groups leave fewer than `FEWEST` items.

    Raises:
        ValueError: there are fewer than `FEWEST` items, or not as many of one measurement as of the other.
    """
    # The correlation of each pair.
    groups = np.zeros(0) if given is None else np.asarray(given)
    lost = max(0, len(np.unique(groups)) - 1)
    found = []
    for measurements in pairs:
        a, b = (np.asarray(one, dtype=np.float64) for one in measurements)
        if a.shape != b.shape or a.ndim != 1 or len(a) < FEWEST:
            raise ValueError(f"{a.shape} and {b.shape}: must be as many items, and {FEWEST} or more")
        ranks = np.stack([stats.rankdata(a), stats.rankdata(b)])
        if given is not None:
            ranks = _within_groups(ranks, groups)
        if np.ptp(ranks, axis=1).min() == 0 or len(a) - lost < FEWEST:
            return None
        found.append(float(np.corrcoef(*ranks)[0, 1]))

    # Their mean and its interval.
    n, mean = len(a) - lost, float(np.mean(found))
    least_disorder = 12 / (n * (n**2 - 1))  # two neighbours exchanged
    within = min(max(mean, least_disorder - 1), 1 - least_disorder)
    half = float(stats.norm.ppf((1 + confidence) / 2)) * math.sqrt((1 + within**2 / 2) / (n - 3))
    low, high = math.tanh(math.atanh(within) - half), math.tanh(math.atanh(within) + half)
    return MeanInterval(mean, min(low, mean), max(high, mean), n)


def _within_groups(ranks: NDArray[np.float64], groups: NDArray[Any]) -> NDArray[np.float64]:
    """Ranks, (M, n), less the mean of their group."""
    return ranks - np.stack([ranks[:, groups == group].mean(axis=1) for group in groups], axis=1)
