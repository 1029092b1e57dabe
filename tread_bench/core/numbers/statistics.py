"""Uncertainty of results: intervals, paired comparisons, and which rows may be the best. No torch, no pandas."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, stats

CONFIDENCE = 0.95
LEVEL = 0.05
STRONG_EXCESS, WEAK_EXCESS = 0.05, 0.5  # excess of a loss over the smallest: costs little, and clearly worse
_RESAMPLES = 9999

Seeds = Mapping[Any, float]  # seed -> value


@dataclass(frozen=True, slots=True)
class MeanInterval:
    """A mean over `n` values and its confidence interval; a single value has none."""

    mean: float
    low: float | None
    high: float | None
    n: int

    @property
    def bounds(self) -> tuple[float, float] | None:
        """(low, high), or None without an interval."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    def excludes(self, value: float) -> bool:
        """Return whether there is an interval and `value` lies outside it."""
        return self.is_above(value) or self.is_below(value)

    def is_above(self, value: float) -> bool:
        """Return whether there is an interval and all of it lies above `value`."""
        return self.low is not None and self.low > value

    def is_below(self, value: float) -> bool:
        """Return whether there is an interval and all of it lies below `value`."""
        return self.high is not None and self.high < value


def mean_interval(values: ArrayLike, confidence: float = CONFIDENCE) -> MeanInterval:
    """Return the mean and its Student-t interval: mean +- t_{n-1} s / sqrt(n). Raises ValueError without values."""
    sample = _sample(values, at_least=1)
    n, mean = len(sample), float(sample.mean())
    if n == 1:
        return MeanInterval(mean, None, None, 1)
    half = student_quantile((1 + confidence) / 2, n - 1) * float(sample.std(ddof=1)) / math.sqrt(n)
    return MeanInterval(mean, mean - half, mean + half, n)


@cache
def student_quantile(p: float, freedom: float) -> float:
    """Return the quantile of Student's t. Without a cache it takes longer than all else of an interval."""
    return float(stats.t.ppf(p, freedom))


def paired_difference(a: Seeds, b: Seeds, confidence: float = CONFIDENCE) -> MeanInterval | None:
    """Return the interval of the mean of a - b over the shared seeds; None if there are none."""
    differences = _differences(a, b)
    return mean_interval(differences, confidence) if differences else None


def log_ratio(a: Seeds, b: Seeds) -> MeanInterval | None:
    """Return the interval of the mean of log(a / b) over the shared seeds.

    None if there are none, or a value is not positive.
    """
    shared = [(a[seed], b[seed]) for seed in a if seed in b]
    if not shared or min(map(min, shared)) <= 0:
        return None
    return mean_interval([math.log(one / other) for one, other in shared])


def hull(intervals: Sequence[MeanInterval | None]) -> MeanInterval | None:
    """Return the first interval, widened to cover them all; None without any, or where one is unknown.

    It keeps its mean, and is without bounds where they are.
    """
    known = [one for one in intervals if one is not None]
    bounds = [one.bounds for one in known if one.bounds is not None]
    if not known or len(known) < len(intervals):
        return None
    if len(bounds) < len(known):
        return known[0]
    return replace(known[0], low=min(low for low, _ in bounds), high=max(high for _, high in bounds))


def paired_p_value(a: Seeds, b: Seeds) -> float | None:
    """Return the p-value of a two-sided paired t-test over the shared seeds; None with fewer than two of them."""
    differences = _differences(a, b)
    if len(differences) < 2:
        return None
    mean, spread = float(np.mean(differences)), float(np.std(differences, ddof=1))
    if spread == 0:  # all seeds have the same difference
        return 1.0 if mean == 0 else 0.0
    n = len(differences)
    return float(2 * stats.t.sf(abs(mean) / (spread / math.sqrt(n)), n - 1))


def median_interval(values: ArrayLike) -> tuple[float, float, float]:
    """Return the median and its percentile bootstrap interval (Efron 1979): (median, low, high).

    Raises:
        ValueError: fewer than two values, which have no interval.
    """
    sample = _sample(values, at_least=2)
    drawn = np.random.default_rng(0).integers(len(sample), size=(_RESAMPLES, len(sample)))
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(np.median(sample[drawn], axis=1), [tail, 1 - tail])
    return float(np.median(sample)), float(low), float(high)


def paired_ratio(a: ArrayLike, b: ArrayLike) -> tuple[float, float, float]:
    """Return the ratio a / b of paired positive measurements: exp of the median log ratio, with its bootstrap interval.

    For a speed-up, `a` holds the dense step times and `b` the routed ones, pair by pair.

    Raises:
        ValueError: different lengths, fewer than two pairs, or a measurement that is not positive.
    """
    above, below = _sample(a, at_least=2), _sample(b, at_least=2)
    if len(above) != len(below):
        raise ValueError(f"{len(above)} and {len(below)} measurements: pairs need as many of one as of the other")
    if min(above.min(), below.min()) <= 0:
        raise ValueError("a ratio needs positive measurements; 0 or less was measured, so the clock cannot be trusted")
    ratio, low, high = np.exp(median_interval(np.log(above / below)))
    return float(ratio), float(low), float(high)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return adjusted p-values (Holm 1979) in the given order: the k-th smallest of m times m-k+1, never falling."""
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def paired_p_values(pairs: Iterable[tuple[Seeds, Seeds]]) -> list[float]:
    """Return the p-values of paired t-tests, Holm-adjusted over all of them; 1 with fewer than two shared seeds."""
    p_values = [paired_p_value(a, b) for a, b in pairs]
    return holm([1.0 if p is None else p for p in p_values])


@dataclass(frozen=True, slots=True)
class AgainstBest:
    """Which of several rows may have the lowest expected value.

    `names` is in the order of the rows' means, lowest first, each adjusted for the seeds that its row lacks; `is_worse`
    (k, k) states whether row i is significantly worse than row j. `smallest` is the smallest difference from the lowest
    that could have been significant, as a share of the value if `is_relative`; None if no difference could have been.
    """

    names: tuple[str, ...]
    is_worse: NDArray[np.bool_]
    smallest: float | None
    is_relative: bool

    def best(self, among: Collection[str] | None = None) -> tuple[str, ...]:
        """Return the rows (all, or those `among`) that are not significantly worse than another, lowest mean first."""
        chosen = [k for k, name in enumerate(self.names) if among is None or name in among]
        return tuple(self.names[k] for k in chosen if not self.is_worse[k, chosen].any())


def against_best(scores: Mapping[str, Seeds]) -> AgainstBest:
    """Compare all rows with the best (Hsu 1984); lower is better, and seeds are blocks.

    log(score) = row + seed + residual is fitted by least squares to the available scores, or the scores themselves if
    one is not positive. Row i is significantly worse than row j if its effect is higher by at least d standard errors
    of that difference (`_critical_value`). The variance is the pooled residual variance, or the mean of the two rows'
    own variances if that is larger, so a row with a larger spread is not falsely excluded. Rows without a score are
    left out; rows that share no seed, directly or through other rows, cannot be compared.

    Args:
        scores: row -> seed -> value.

    Raises:
        ValueError: a value is not finite.
    """
    names = tuple(name for name, seeds in scores.items() if seeds)
    means = np.array([_sample(list(scores[name].values()), at_least=1).mean() for name in names])
    rows, seeds, values = _observations(scores, names)
    k, is_relative = len(names), bool((values > 0).all())

    # The additive model: effects of rows and seeds, the hat matrix, and the degrees of freedom that each score leaves.
    design = np.hstack([np.equal.outer(rows, np.unique(rows)), np.equal.outer(seeds, np.unique(seeds))]).astype(float)
    inverse = np.linalg.pinv(design)
    hat = design @ inverse
    left = 1 - np.diagonal(hat)
    freedom = round(float(left.sum()))

    # The rows in the order of their means, each adjusted for the seeds that its row lacks.
    order = np.argsort(means + (inverse @ (values - means[rows]))[:k].round(9), kind="stable")
    names = tuple(names[place] for place in order)
    nothing = AgainstBest(names, np.zeros((k, k), dtype=bool), None, is_relative)
    if k < 2 or freedom < 1:
        return nothing
    values = np.log(values) if is_relative else values

    # Residual variances: pooled, and of each row by its share of the degrees of freedom.
    squares = design[:, :k].T @ np.column_stack([(values - hat @ values) ** 2, left])
    pooled = float(squares[:, 0].sum() / freedom)
    own = np.array([square / share if share > _NEGLIGIBLE else pooled for square, share in squares])
    variance = np.maximum(pooled, (own[:, None] + own) / 2)

    # Differences of effects, their variance relative to a residual's, and whether the seeds allow a comparison.
    effects, covariance = (inverse @ values)[:k], (inverse @ inverse.T)[:k, :k]
    unknown = (np.eye(design.shape[1]) - inverse @ design)[:k]
    is_known = (np.abs(unknown[:, None] - unknown).max(axis=2) < _NEGLIGIBLE) & ~np.eye(k, dtype=bool)
    if not is_known.any():
        return nothing
    scale = np.add.outer(np.diagonal(covariance), np.diagonal(covariance)) - 2 * covariance
    critical = _critical_value(k, freedom, _smallest_correlation(covariance, scale, is_known))
    least = critical * np.sqrt(variance * scale)
    difference = effects[:, None] - effects
    is_worse = is_known & (difference >= least) & (difference > _NEGLIGIBLE)
    smallest = critical * math.sqrt(pooled * float(scale[is_known].min()))
    return AgainstBest(
        names, is_worse[np.ix_(order, order)], math.expm1(smallest) if is_relative else smallest, is_relative
    )


_NEGLIGIBLE = 1e-9  # 0 up to rounding


def _observations(
    scores: Mapping[str, Seeds], names: Sequence[str]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Index of the row, index of the seed, and value of each observation, (N,) each."""
    places = {seed: place for place, seed in enumerate(dict.fromkeys(seed for name in names for seed in scores[name]))}
    found = [(row, places[seed], value) for row, name in enumerate(names) for seed, value in scores[name].items()]
    rows, seeds, values = zip(*found, strict=True) if found else ((), (), ())
    return np.array(rows, dtype=np.int64), np.array(seeds, dtype=np.int64), np.array(values, dtype=np.float64)


def _smallest_correlation(
    covariance: NDArray[np.float64], scale: NDArray[np.float64], is_known: NDArray[np.bool_]
) -> float:
    """Smallest correlation of two differences to the same row: 1/2 if no score is missing."""
    k = len(covariance)
    found = [0.5]
    for i in range(k):
        others = np.flatnonzero(is_known[i])
        shared = covariance[np.ix_(others, others)] - covariance[i, others] - covariance[others, i][:, None]
        correlations = (shared + covariance[i, i]) / np.sqrt(np.outer(scale[i, others], scale[i, others]))
        found += list(correlations[~np.eye(len(others), dtype=bool)])
    return max(0.0, round(min(found), 6))


@cache
def _critical_value(k: int, freedom: int, correlation: float) -> float:
    """How many standard errors a difference from the best of k rows must have: the larger of two 95 % points.

    The first is Dunnett's (1955), one-sided: the maximum of k - 1 t variables of equal correlation. If the correlations
    differ, the smallest gives an upper bound (Slepian 1962). The second is the two-sided point of a single t, which is
    larger for up to three rows: of two equally good rows with normal residuals, one is called the only best in at most
    5 % of cases.
    """
    z, weights = np.polynomial.hermite_e.hermegauss(64)
    u, shares = np.polynomial.legendre.leggauss(256)
    spread = np.sqrt(stats.chi2.ppf((u + 1) / 2, freedom) / freedom)[:, None]  # s / sigma at its quantiles

    def coverage(d: float) -> float:
        below = stats.norm.cdf((d * spread + math.sqrt(correlation) * z) / math.sqrt(1 - correlation)) ** (k - 1)
        return float(shares / 2 @ below @ weights / weights.sum())

    single = float(stats.t.ppf(1 - LEVEL / 2, freedom))
    if coverage(single) >= 1 - LEVEL:
        return single
    return float(optimize.brentq(lambda d: coverage(d) - (1 - LEVEL), single, 1e3))


class GuidanceRates(NamedTuple):
    """Rates of the two branches of Sparse Guidance."""

    strong: float
    weak: float
    is_clearly_weak: bool  # False: the weak rate is the largest available


def guidance_rates(losses: Mapping[float, float]) -> GuidanceRates | None:
    """Choose rates for Sparse Guidance from one network's validation loss at several rates.

    This is our reading; the paper searches them by FID. The strong branch uses the largest rate that costs little: its
    loss exceeds the smallest by at most the share `STRONG_EXCESS`. The weak branch is clearly worse: it uses the
    smallest higher rate whose loss exceeds the smallest by at least `WEAK_EXCESS`, or else the largest rate.

    Args:
        losses: rate -> loss.

    Returns:
        the rates, or None if no rate is left for a weak branch.
    """
    best = min(losses.values())
    strong = max(rate for rate, loss in losses.items() if loss <= best * (1 + STRONG_EXCESS))
    above = sorted(rate for rate in losses if rate > strong)
    if not above:
        return None
    clear = [rate for rate in above if losses[rate] >= best * (1 + WEAK_EXCESS)]
    return GuidanceRates(strong, (clear or above[-1:])[0], bool(clear))


def _differences(a: Seeds, b: Seeds) -> list[float]:
    return [a[seed] - b[seed] for seed in a if seed in b]


def _sample(values: ArrayLike, at_least: int) -> NDArray[np.float64]:
    sample = np.asarray(values, dtype=np.float64).ravel()
    if len(sample) < at_least:
        raise ValueError(f"{len(sample)} values: at least {at_least} needed")
    if not np.isfinite(sample).all():
        raise ValueError("values must be finite; NaN or infinity was given")
    return sample
