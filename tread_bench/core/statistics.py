"""How sure we are: intervals, paired comparisons, and which rows may be the best. No torch, no pandas."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, stats

CONFIDENCE = 0.95
LEVEL = 0.05
STRONG_EXCESS, WEAK_EXCESS = 0.05, 0.5  # of a loss over the smallest: what costs little, and what is clearly worse
_RESAMPLES = 9999

Seeds = Mapping[Any, float]  # seed -> value


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over `n` values and its interval; a single value has none."""

    mean: float
    low: float | None
    high: float | None
    n: int

    @property
    def bounds(self) -> tuple[float, float] | None:
        """(low, high), or None where there is no interval."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    def excludes(self, value: float) -> bool:
        """Whether there is an interval and `value` lies outside it."""
        return self.bounds is not None and not self.bounds[0] <= value <= self.bounds[1]


def mean_interval(values: ArrayLike, confidence: float = CONFIDENCE) -> Estimate:
    """Mean and two-sided Student-t interval: mean +- t_{n-1} s / sqrt(n). Raises ValueError without values."""
    sample = _sample(values, at_least=1)
    n, mean = len(sample), float(sample.mean())
    if n == 1:
        return Estimate(mean, None, None, 1)
    half = float(stats.t.ppf((1 + confidence) / 2, n - 1)) * float(sample.std(ddof=1)) / math.sqrt(n)
    return Estimate(mean, mean - half, mean + half, n)


def paired_difference(a: Seeds, b: Seeds, confidence: float = CONFIDENCE) -> Estimate | None:
    """Interval of the mean of a - b over the seeds that both have; None where they share none."""
    differences = _differences(a, b)
    return mean_interval(differences, confidence) if differences else None


def paired_p_value(a: Seeds, b: Seeds) -> float | None:
    """Two-sided paired t-test over the shared seeds; None with fewer than two of them."""
    differences = _differences(a, b)
    if len(differences) < 2:
        return None
    mean, spread = float(np.mean(differences)), float(np.std(differences, ddof=1))
    if spread == 0:  # every seed shows the same difference
        return 1.0 if mean == 0 else 0.0
    n = len(differences)
    return float(2 * stats.t.sf(abs(mean) / (spread / math.sqrt(n)), n - 1))


def median_interval(values: ArrayLike, confidence: float = CONFIDENCE, seed: int = 0) -> tuple[float, float, float]:
    """Median and its percentile bootstrap interval (Efron 1979): (median, low, high).

    Raises:
        ValueError: with fewer than two values, of which no interval can be had.
    """
    sample = _sample(values, at_least=2)
    drawn = np.random.default_rng(seed).integers(len(sample), size=(_RESAMPLES, len(sample)))
    tail = (1 - confidence) / 2
    low, high = np.quantile(np.median(sample[drawn], axis=1), [tail, 1 - tail])
    return float(np.median(sample)), float(low), float(high)


def paired_ratio(
    a: ArrayLike, b: ArrayLike, confidence: float = CONFIDENCE, seed: int = 0
) -> tuple[float, float, float]:
    """Ratio a / b of paired positive measurements: exp of the median log ratio, with its bootstrap interval.

    For a speed-up, `a` holds the dense step times and `b` the routed ones, pair by pair.

    Raises:
        ValueError: lengths that differ, fewer than two pairs, or a measurement that is not positive.
    """
    above, below = _sample(a, at_least=2), _sample(b, at_least=2)
    if len(above) != len(below):
        raise ValueError(f"{len(above)} and {len(below)} measurements: pairs need as many of one as of the other")
    if min(above.min(), below.min()) <= 0:
        raise ValueError("a ratio needs positive measurements; 0 or less was measured, so the clock cannot be trusted")
    ratio, low, high = np.exp(median_interval(np.log(above / below), confidence, seed))
    return float(ratio), float(low), float(high)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values in the order given (Holm 1979): the k-th smallest of m times m - k + 1, never decreasing."""
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


@dataclass(frozen=True, slots=True)
class AgainstBest:
    """Which of several rows may have the lowest expected value.

    `names` are in the order of the rows' means, the lowest first; `is_worse` (k, k) says of row i whether it is
    significantly worse than row j. `smallest` is the smallest difference from the lowest that could have been
    significant, a share of the value where `is_relative`; None where nothing could.
    """

    names: tuple[str, ...]
    is_worse: NDArray[np.bool_]
    smallest: float | None
    is_relative: bool

    def best(self, among: Collection[str] | None = None) -> tuple[str, ...]:
        """The rows that are not significantly worse than another one, the lowest mean first; of all, or of some."""
        chosen = [k for k, name in enumerate(self.names) if among is None or name in among]
        return tuple(self.names[k] for k in chosen if not self.is_worse[k, chosen].any())


def against_best(scores: Mapping[str, Seeds]) -> AgainstBest:
    """Multiple comparisons with the best (Hsu 1984), where lower is better and seeds are blocks.

    log(score) = row + seed + residual, by least squares over the scores that there are; the scores themselves where one
    is not positive. Row i is significantly worse than row j where its effect is higher by d standard errors of that
    difference or more (`_critical_value`). Their variance is the pooled residual one, or the mean of the two rows' own
    where that is larger: rows of larger spread are not lost for it. Rows without a score are left out; rows that share
    no seed, directly or through others, cannot be compared.

    Args:
        scores: row -> seed -> value.

    Raises:
        ValueError: a value is not finite.
    """
    means = {name: float(_sample(list(seeds.values()), at_least=1).mean()) for name, seeds in scores.items() if seeds}
    names = tuple(sorted(means, key=means.__getitem__))
    rows, seeds, values = _observations(scores, names)
    k, is_relative = len(names), bool((values > 0).all())
    nothing = AgainstBest(names, np.zeros((k, k), dtype=bool), None, is_relative)

    # The additive model: effects of rows and seeds, the hat matrix, and the degrees of freedom that each score leaves.
    design = np.hstack([np.equal.outer(rows, np.unique(rows)), np.equal.outer(seeds, np.unique(seeds))]).astype(float)
    inverse = np.linalg.pinv(design)
    hat = design @ inverse
    left = 1 - np.diagonal(hat)
    freedom = round(float(left.sum()))
    if k < 2 or freedom < 1:
        return nothing
    values = np.log(values) if is_relative else values

    # Variances: of the residuals, pooled and of each row by its share of the degrees of freedom.
    squares = design[:, :k].T @ np.column_stack([(values - hat @ values) ** 2, left])
    pooled = float(squares[:, 0].sum() / freedom)
    own = np.array([square / share if share > _NEGLIGIBLE else pooled for square, share in squares])
    variance = np.maximum(pooled, (own[:, None] + own) / 2)

    # Differences of effects, their variance over that of a residual, and whether the seeds allow one at all.
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
    return AgainstBest(names, is_worse, math.expm1(smallest) if is_relative else smallest, is_relative)


_NEGLIGIBLE = 1e-9  # what rounding leaves of 0


def _observations(
    scores: Mapping[str, Seeds], names: Sequence[str]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """(N,) each: the place of the row, the place of the seed, the value."""
    places = {seed: place for place, seed in enumerate(dict.fromkeys(seed for name in names for seed in scores[name]))}
    found = [(row, places[seed], value) for row, name in enumerate(names) for seed, value in scores[name].items()]
    rows, seeds, values = zip(*found, strict=True) if found else ((), (), ())
    return np.array(rows, dtype=np.int64), np.array(seeds, dtype=np.int64), np.array(values, dtype=np.float64)


def _smallest_correlation(
    covariance: NDArray[np.float64], scale: NDArray[np.float64], is_known: NDArray[np.bool_]
) -> float:
    """Of two differences to the same row: 1/2 where no score is missing."""
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

    Dunnett's (1955), one-sided: of the maximum over k - 1 t variables of equal correlation. Where the correlations
    differ, the smallest gives an upper bound (Slepian 1962). And the two-sided point of a single t, which is larger for
    up to three rows: of two rows that are equally good, one is called the only best in at most 5 %.
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
    is_clearly_weak: bool  # else the weak rate is the largest that there is


def guidance_rates(losses: Mapping[float, float]) -> GuidanceRates | None:
    """Rates for Sparse Guidance, read off one network's validation loss at several rates.

    Our reading, since the paper searches them by FID: the strong branch bypasses as much as costs little, the largest
    rate whose loss exceeds the smallest by at most the share `STRONG_EXCESS`; the weak one is clearly worse, the
    smallest rate above it whose loss exceeds the smallest by `WEAK_EXCESS` or more, else the largest of all.

    Args:
        losses: rate -> loss.

    Returns:
        None where no rate is left for a weak branch.
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
