"""From how much compute on routing pays: the compute ratio of two trainings at equal loss, and the rule. No torch.

docs/methods/onset.md argues the rule and has its simulated error rates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from tread_bench.core.numbers.curves import SAME, Curve
from tread_bench.core.numbers.statistics import LEVEL, MeanInterval, mean_interval

Answer = Literal["pays", "does not pay", "inconclusive"]
Logs = tuple[NDArray[np.float64], NDArray[np.float64]]  # log compute and log losses, at the end of each length


class LogRatio(NamedTuple):
    """log(C_reference / C_routed) of one seed; where it is further from 0 than could be measured, `is_least` says that
    the true one is this or more, and `is_most` that it is this or less.

    `advantages` are what is tested, at the two readings of `advantages`.
    """

    value: float
    advantages: tuple[float, ...]
    is_least: bool = False
    is_most: bool = False


def log_ratios(reference: Curve, routed: Curve, margin: float = 1.0) -> list[LogRatio] | None:
    """Return the log ratio of two arms' compute at equal loss, at each of the K lengths that both were trained for.

    At every length but the first the two are compared at the loss of the worse arm, so that the better one is read
    within what it was trained for; at the first length at that of the better arm. Nothing is extrapolated.

    Args:
        reference: one seed's total training MACs and losses, at the end of each length.
        routed: those of the same seed and lengths.

    None where the loss of an arm does not fall from one length to the next: then no compute belongs to a loss.
    """
    arms = (reference, routed)
    if not all(np.all(np.diff(arm.values) < 0) for arm in arms):
        return None
    above, below = ((np.log(arm.costs), np.log(arm.values)) for arm in arms)
    tested = advantages(above, below, margin)
    found = []
    for place, ends in enumerate(zip(reference.values, routed.values, strict=True)):
        loss = max(ends) if place else min(ends)
        value = math.log(
            min(reference.cost_at(loss), reference.costs[-1]) / min(routed.cost_at(loss), routed.costs[-1])
        )
        is_bound = any(not arm.values[-1] <= loss <= arm.values[0] for arm in arms)
        at_length = tuple(tested[:, place].tolist())
        found.append(LogRatio(value, at_length, is_bound and value > 0, is_bound and value < 0))
    return found


def advantages(reference: Logs, routed: Logs, margin: float = 1.0) -> NDArray[np.float64]:
    """Return log(loss of the reference / loss of the routed arm) where the reference has `margin` times the compute.

    That is at each of the K lengths, where the routed arm is read at less compute, and at the first length the
    reference at more. Unlike a ratio of compute, it has no kink where the two arms are equal.

    Args:
        reference: log compute, (K,), and log losses, (..., K).
        routed: those of the routed arm.

    Returns:
        (2, ..., K), by the two readings of `between`, which are one without a margin.
    """
    above, below = (np.stack([losses, losses]) for _, losses in (reference, routed))
    if margin > 1:
        above[..., 0] = between(*reference, reference[0][0] + math.log(margin))
        for place in range(1, below.shape[-1]):
            below[..., place] = between(*routed, routed[0][place] - math.log(margin))
    return np.asarray(above - below)


def between(log_costs: NDArray[np.float64], log_losses: NDArray[np.float64], at: float) -> NDArray[np.float64]:
    """Return two log losses between which that at the log cost `at` lies, as far as three lengths can tell.

    They are half as far on either side of the parabola through the lengths beside it and the nearest third as the
    parabola is from the chord. A power law with a floor lies between them, whatever the floor, where the loss above it
    falls by half at most from one length to the next.

    Args:
        log_costs: (K,), rising.
        log_losses: (..., K).

    Returns:
        (2, ...); NaN beyond the lengths, and with fewer than three.
    """
    x, y = log_costs, log_losses
    if len(x) < 3 or not x[0] - SAME <= at <= x[-1] + SAME:
        return np.full((2, *y.shape[:-1]), math.nan)
    after = min(max(int(np.searchsorted(x, at)), 1), len(x) - 1)
    first = max(after - 2, 0)
    slopes = np.diff(y) / np.diff(x)
    chord = y[..., after] + slopes[..., after - 1] * (at - x[after])
    bend = (slopes[..., first + 1] - slopes[..., first]) / (x[first + 2] - x[first])
    off = bend * (at - x[after - 1]) * (at - x[after])
    return np.stack([chord + 0.5 * off, chord + 1.5 * off])


def p_value_of(advantages: NDArray[np.float64], sign: int = 1) -> NDArray[np.float64]:
    """Return the p-values of one-sided t-tests over seeds, for a mean above 0; below it with `sign` -1.

    Args:
        advantages: (2, ..., n), by reading and seed.

    Returns:
        (...), the larger of both readings, since a claim must hold at each; NaN without two seeds.
    """
    n = advantages.shape[-1]
    if n < 2:
        return np.full(advantages.shape[1:-1], math.nan)
    with np.errstate(divide="ignore", invalid="ignore"):  # seeds that are all equal
        t = advantages.mean(axis=-1) / (advantages.std(axis=-1, ddof=1) / math.sqrt(n))
    return np.asarray(stats.t.sf(sign * t, n - 1).max(axis=0))


@dataclass(frozen=True)
class Ratio:
    """C_reference / C_routed at one length, over paired seeds.

    Args:
        by_seed: log ratios; None where a loss does not fall.
    """

    by_seed: Mapping[int, LogRatio | None]

    @classmethod
    def mean_of(cls, ratios: Sequence[Ratio]) -> Ratio:
        """Return the geometric mean over several widths, seed by seed, of the seeds that all of them have."""
        shared = set.intersection(*(set(ratio.by_seed) for ratio in ratios))
        return cls({seed: _mean([ratio.by_seed[seed] for ratio in ratios]) for seed in sorted(shared)})

    @cached_property
    def logs(self) -> dict[int, float]:
        """The log ratios; empty where that of any seed is unknown, so that no seed is left out by how it ended."""
        known = {seed: found.value for seed, found in self.by_seed.items() if found is not None}
        return known if len(known) == len(self.by_seed) else {}

    @property
    def is_least(self) -> bool:
        """Whether the true ratio may be larger: that of some seed or width is this or more."""
        return any(found is not None and found.is_least for found in self.by_seed.values())

    @property
    def is_most(self) -> bool:
        """Whether the true ratio may be smaller: that of some seed or width is this or less."""
        return any(found is not None and found.is_most for found in self.by_seed.values())

    @property
    def estimate(self) -> MeanInterval | None:
        """The ratio and its 95 % interval (Student's, of the logs); without an interval where the ratio is a bound.

        None where it is not known: a loss does not fall, or one bound is from below and another from above.
        """
        if not self.logs or (self.is_least and self.is_most):
            return None
        found = mean_interval(list(self.logs.values()))
        if found.bounds is None or self.is_least or self.is_most:
            return MeanInterval(math.exp(found.mean), None, None, found.n)
        low, high = map(math.exp, found.bounds)
        return MeanInterval(math.exp(found.mean), low, high, found.n)

    @cached_property
    def p_value(self) -> float | None:
        """That of a one-sided paired t-test for less compute than the reference's by more than the margin; None
        without two seeds.
        """
        return self._p_value(1)

    @cached_property
    def p_value_denied(self) -> float | None:
        """That of such a test for a gain of less than the margin."""
        return self._p_value(-1)

    def _p_value(self, sign: int) -> float | None:
        if not self.logs:
            return None
        found = float(p_value_of(np.transpose([one.advantages for one in self.by_seed.values() if one]), sign))
        return None if math.isnan(found) else found


def _mean(ratios: Sequence[LogRatio | None]) -> LogRatio | None:
    known = [ratio for ratio in ratios if ratio is not None]
    if len(known) < len(ratios):
        return None
    return LogRatio(
        float(np.mean([ratio.value for ratio in known])),
        tuple(np.mean([ratio.advantages for ratio in known], axis=0).tolist()),
        any(ratio.is_least for ratio in known),
        any(ratio.is_most for ratio in known),
    )


@dataclass(frozen=True, slots=True)
class Onset:
    """From which length on a route pays: `first` is its place among the lengths, None where it pays at none.

    `p_values` are those for "pays" at each length, adjusted for the sequence: the largest from there to the longest.
    """

    answer: Answer
    first: int | None
    p_values: tuple[float | None, ...]


def onset(ratios: Sequence[Sequence[Ratio]], tests: int = 1) -> Onset:
    """Decide from which length on a route needs less compute than each of its references, by more than their margin.

    Lengths are tested from the longest down, each at `LEVEL` / `tests`, until one is not found to pay (a fixed
    sequence). At each, the route must be better than every reference (an intersection-union test).

    Args:
        ratios: (K, R), by length, the shortest first, and by reference.
        tests: number of such sequences on one page.
    """
    # Where it pays, from the longest length down.
    p_values = sequence(np.array([[ratio.p_value for ratio in at_length] for at_length in ratios], dtype=float))
    paying = np.flatnonzero(p_values <= LEVEL / tests)
    shown = tuple(None if math.isnan(p) else p for p in p_values.tolist())
    if len(paying):
        return Onset("pays", int(paying[0]), shown)

    # It does not pay even at the longest, where one reference needs less than the margin times its compute.
    ends = [ratio.p_value_denied for ratio in ratios[-1]]
    is_worse = any(p is not None and p <= LEVEL / tests / len(ends) for p in ends)
    return Onset("does not pay" if is_worse else "inconclusive", None, shown)


def sequence(p_values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the p-values of the sequence, (..., K), of those by length and reference, (..., K, R): the largest of all
    references from each length to the longest; NaN where one of them is.
    """
    of_references = p_values.max(axis=-1)
    return np.maximum.accumulate(of_references[..., ::-1], axis=-1)[..., ::-1]
