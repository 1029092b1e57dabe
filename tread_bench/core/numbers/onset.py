"""From how much compute on routing pays: the compute ratio of two trainings at equal loss, and the rule. No torch.

docs/methods/onset.md argues the rule and has its simulated error rates.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from tread_bench.core.numbers.curves import SAME, Curve
from tread_bench.core.numbers.statistics import LEVEL, MeanInterval, mean_interval

Answer = Literal["pays", "does not pay", "inconclusive"]
Logs = tuple[NDArray[np.float64], NDArray[np.float64]]  # log compute and log losses, at the end of each length


class Arm(NamedTuple):
    """What trainings of several lengths and seeds have in common; `route` is "" for dense training."""

    tokens: int
    width: str  # the backbone without its depth
    depth: int
    route: str

    @classmethod
    def of(cls, tokens: int, backbone: Mapping[str, Any], route: str) -> Arm:
        """Return the arm of a backbone's settings."""
        others = dict(backbone)
        depth = int(others.pop("depth", 0))
        return cls(tokens, json.dumps(others, sort_keys=True), depth, route)


@dataclass(frozen=True, eq=False)
class Ratio:
    """C_reference / C_routed at one length, over n paired seeds.

    Args:
        logs: (n,), log ratios; NaN where the loss of an arm does not fall.
        advantages: (2, n), what is tested, at the two readings of `advantages`.
        is_least: the true ratio may be larger: that of some seed or width is this or more.
        is_most: the true ratio may be smaller.
    """

    logs: NDArray[np.float64]
    advantages: NDArray[np.float64]
    is_least: bool = False
    is_most: bool = False

    @property
    def estimate(self) -> MeanInterval | None:
        """The ratio and its 95 % interval (Student's, of the logs); without an interval where the ratio is a bound.

        None where it is not known: there is no seed, a loss does not fall, so that no seed is left out by how it ended,
        or one bound is from below and another from above.
        """
        if not len(self.logs) or np.isnan(self.logs).any() or (self.is_least and self.is_most):
            return None
        found = mean_interval(self.logs)
        if found.bounds is None or self.is_least or self.is_most:
            return MeanInterval(math.exp(found.mean), None, None, found.n)
        low, high = map(math.exp, found.bounds)
        return MeanInterval(math.exp(found.mean), low, high, found.n)

    @property
    def p_value(self) -> float:
        """The p-value of a one-sided paired t-test for less compute than the reference's by more than the margin."""
        return float(p_value_of(self.advantages))


def compute_ratios(references: ArrayLike, routed: ArrayLike, margin: float = 1.0) -> list[list[Ratio]]:
    """Return the ratios of two arms' compute at equal loss, at each of the K lengths that both were trained for.

    At every length but the first the two are compared at the loss of the worse arm, so that the better one is read
    within what it was trained for; at the first length at that of the better arm. Nothing is extrapolated: where the
    better arm had that loss at its shortest length already, the ratio is a bound. A seed of which the loss of an arm
    does not fall from one length to the next has none: then no compute belongs to a loss.

    Args:
        references: (R, W, n, K, 2), total training MACs and loss at the end of each length, by reference, width, seed.
        routed: (W, n, K, 2), those of the routed arm.

    Returns:
        (K, R), geometric means over the widths, seed by seed.
    """
    # The curves of every reference, width and seed.
    above, below = np.asarray(references, dtype=float), np.asarray(routed, dtype=float)
    shape = above.shape[:4]
    logs = np.full(shape, math.nan)
    tested = np.full((2, *shape), math.nan)
    is_bound = np.zeros(shape, dtype=bool)
    for one in np.ndindex(shape[:3]):
        arms = [Curve(tuple(arm[:, 0].tolist()), tuple(arm[:, 1].tolist())) for arm in (above[one], below[one[1:]])]
        if not all(arm.values[-1] > 0 and np.all(np.diff(arm.values) < 0) for arm in arms):
            continue
        reference, beside = ((np.log(arm.costs), np.log(arm.values)) for arm in arms)
        tested[:, *one] = advantages(reference, beside, margin)

        # Compute at the loss of the worse arm, or at the first length of the better one.
        for place, ends in enumerate(zip(*(arm.values for arm in arms), strict=True)):
            loss = max(ends) if place else min(ends)
            costs = [min(arm.cost_at(loss), arm.costs[-1]) for arm in arms]
            logs[*one, place] = math.log(costs[0] / costs[1])
            is_bound[*one, place] = any(not arm.values[-1] <= loss <= arm.values[0] for arm in arms)

    # Means over the widths.
    is_least = np.any(is_bound & (logs > 0), axis=(1, 2))
    is_most = np.any(is_bound & (logs < 0), axis=(1, 2))
    logs, tested = logs.mean(axis=1), tested.mean(axis=2)
    return [
        [Ratio(logs[r, :, k], tested[:, r, :, k], bool(is_least[r, k]), bool(is_most[r, k])) for r in range(shape[0])]
        for k in range(shape[3])
    ]


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


@dataclass(frozen=True, eq=False)
class Onset:
    """From which length on a route pays: `first` is its place among the lengths, None where it pays at none.

    `p_values`, (K,), are those for "pays" at each length, adjusted for the sequence: the largest from there to the
    longest.
    """

    answer: Answer
    first: int | None
    p_values: NDArray[np.float64]


def onset(ratios: Sequence[Sequence[Ratio]], tests: int = 1) -> Onset:
    """Decide from which length on a route needs less compute than each of its references, by more than their margin.

    Lengths are tested from the longest down, each at `LEVEL` / `tests`, until one is not found to pay (a fixed
    sequence). At each, the route must be better than every reference (an intersection-union test).

    Args:
        ratios: (K, R), by length, the shortest first, and by reference.
        tests: number of such sequences on one page.
    """
    # Where it pays, from the longest length down.
    p_values = sequence(np.array([[ratio.p_value for ratio in at_length] for at_length in ratios]))
    paying = np.flatnonzero(p_values <= LEVEL / tests)
    if len(paying):
        return Onset("pays", int(paying[0]), p_values)

    # It does not pay even at the longest, where one reference needs less than the margin times its compute.
    ends = np.array([p_value_of(ratio.advantages, -1) for ratio in ratios[-1]])
    is_worse = bool(np.any(ends <= LEVEL / tests / len(ends)))
    return Onset("does not pay" if is_worse else "inconclusive", None, p_values)


def sequence(p_values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the p-values of the sequence, (..., K), of those by length and reference, (..., K, R): the largest of all
    references from each length to the longest; NaN where one of them is.
    """
    of_references = p_values.max(axis=-1)
    return np.maximum.accumulate(of_references[..., ::-1], axis=-1)[..., ::-1]
