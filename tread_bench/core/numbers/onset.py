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

from tread_bench.core.numbers.curves import Curve
from tread_bench.core.numbers.statistics import LEVEL, MeanInterval, mean_interval, paired_p_value

Answer = Literal["pays", "does not pay", "inconclusive"]


class LogRatio(NamedTuple):
    """log(C_reference / C_routed) of one seed; where it is further from 0 than could be measured, `is_least` says that
    the true one is this or more, and `is_most` that it is this or less.

    `advantage` is what is tested: log(loss of the reference / loss of the routed arm), where the reference has had as
    many times the compute as the margin says. Unlike the ratio, it has no kink where the two arms are equal.
    """

    value: float
    advantage: float
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
    found = []
    for place, ends in enumerate(zip(reference.values, routed.values, strict=True)):
        loss = max(ends) if place else min(ends)
        above, below = (min(arm.cost_at(loss), arm.costs[-1]) for arm in arms)
        value = math.log(above / below)
        is_bound = any(not arm.values[-1] <= loss <= arm.values[0] for arm in arms)
        advantage = _advantage(reference, routed, place, margin)
        found.append(LogRatio(value, advantage, is_bound and value > 0, is_bound and value < 0))
    return found


def _advantage(reference: Curve, routed: Curve, place: int, margin: float) -> float:
    """At a length, or at the first one at as many times its compute; NaN beyond what was measured."""
    above, below = reference.values[place], routed.values[place]
    if margin != 1:
        ends = (
            reference.value_at(reference.costs[place] * (1 if place else margin)),
            routed.value_at(routed.costs[place] / (margin if place else 1)),
        )
        above, below = (math.nan if value is None else value for value in ends)
    return math.log(above / below)


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
        advantages = {seed: found.advantage for seed, found in self.by_seed.items() if found and self.logs}
        two_sided = paired_p_value(advantages, dict.fromkeys(advantages, 0.0))
        if two_sided is None or math.isnan(two_sided):
            return None
        return two_sided / 2 if sum(advantages.values()) > 0 else 1 - two_sided / 2


def _mean(ratios: Sequence[LogRatio | None]) -> LogRatio | None:
    known = [ratio for ratio in ratios if ratio is not None]
    if len(known) < len(ratios):
        return None
    return LogRatio(
        float(np.mean([ratio.value for ratio in known])),
        float(np.mean([ratio.advantage for ratio in known])),
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
    level = LEVEL / tests
    p_values: list[float | None] = []
    largest: float | None = 0.0
    for at_length in reversed(ratios):
        found = [ratio.p_value for ratio in at_length]
        known = [p for p in found if p is not None]
        largest = max(largest, *known) if largest is not None and len(known) == len(found) else None
        p_values.insert(0, largest)
    paying = [place for place, p in enumerate(p_values) if p is not None and p <= level]
    if paying:
        return Onset("pays", paying[0], tuple(p_values))

    # It does not pay even at the longest, where one reference needs less than the margin times its compute.
    ends = [ratio.p_value for ratio in ratios[-1]]
    is_worse = any(p is not None and 1 - p <= level / len(ends) for p in ends)
    return Onset("does not pay" if is_worse else "inconclusive", None, tuple(p_values))
