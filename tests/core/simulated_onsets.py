"""Onset studies whose truth is known, by the thousand: how often does the rule err, and what does it find?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tests.reports.simulated_runs import Draw, normal, skewed
from tread_bench.core.numbers.onset import Ratio, advantages, compute_ratios, p_value_of, sequence
from tread_bench.core.numbers.statistics import LEVEL

COSTS = (1.0, 4.0, 16.0)  # total training MACs, in steps of four
# Standard deviations of log loss: of a seed in all arms; of an arm's seed at all lengths, which begin with the same
# weights and see the same data in one order; of one training.
SHARED, OF_ARM, OWN = 0.02, 0.002, 0.002
LAST, FIRST = 2, 0


@dataclass(frozen=True, kw_only=True)
class Truth:
    """The true compute ratios of a study, and its noise.

    Args:
        ratios: per reference, C_reference / C_routed at the reference's three budgets.
        noise: factor of the noise that arms do not share.
        studied: numbers of tokens, each with the same truth and noise of its own.
        floor, exponent: the routed arm's loss in the mean is floor + 0.2 C^-exponent, convex in the logs: its slope
            falls from -0.17 to -0.12 over the budgets.
    """

    ratios: tuple[tuple[float, ...], ...]
    seeds: int = 3
    widths: int = 2
    noise: float = 1.0
    draw: Draw = normal
    margin: float = 1.0
    studied: int = 1
    floor: float = 0.1
    exponent: float = 0.25

    def losses(self, reference: int | None) -> np.ndarray:
        """(K,) without noise; None is the routed arm."""
        x = np.log(COSTS)
        if reference is not None:
            x = x - np.log(self.ratios[reference])
        return self.floor + 0.2 * np.exp(-self.exponent * x)


def log_losses(truth: Truth, rng: np.random.Generator, runs: int) -> np.ndarray:
    """Studies of one number of tokens, (runs, widths, arms, seeds, K), the routed arm first."""
    arms = [None, *range(len(truth.ratios))]
    shared = SHARED * rng.normal(size=(runs, truth.widths, 1, truth.seeds, 1))
    of_arm = OF_ARM * truth.draw(rng, (runs, truth.widths, len(arms), truth.seeds, 1))
    own = OWN * truth.draw(rng, (runs, truth.widths, len(arms), truth.seeds, len(COSTS)))
    without_noise = np.log([truth.losses(arm) for arm in arms])[:, None]
    return without_noise + shared + truth.noise * (of_arm + own)


class Answers(NamedTuple):
    """What the rule says of studies, each (runs,): the first place that pays, or the number of lengths; that it does
    not pay.
    """

    first: np.ndarray
    denied: np.ndarray


def answers_of(losses: np.ndarray, margin: float = 1.0, tests: int = 1) -> Answers:
    """`onset` of many studies at once: the same tests of the same advantages."""
    x = np.log(COSTS)
    routed = losses[:, :, 0]
    by_reference = [
        advantages((x, losses[:, :, arm]), (x, routed), margin).mean(axis=2) for arm in range(1, losses.shape[2])
    ]
    tested = np.moveaxis(by_reference, (0, 3), (-2, -1))  # (2, runs, K, references, seeds)
    paying = sequence(p_value_of(tested)) <= LEVEL / tests
    denied = p_value_of(tested, -1)[:, -1] <= LEVEL / tests / len(by_reference)
    return Answers(len(COSTS) - paying.sum(axis=-1), denied.any(axis=-1) & ~paying[:, -1])


def pays_in(truth: Truth, runs: int, from_place: int = LAST) -> float:
    """Share of studies in which some number of tokens is said to pay from this length on, or an earlier one."""
    rng = np.random.default_rng(0)
    found = [answers_of(log_losses(truth, rng, runs), truth.margin, truth.studied) for _ in range(truth.studied)]
    return float(np.mean(np.min([one.first for one in found], axis=0) <= from_place))


def denied_in(truth: Truth, runs: int) -> float:
    """Share of studies of one number of tokens which say that it does not pay."""
    return float(np.mean(answers_of(log_losses(truth, np.random.default_rng(0), runs), truth.margin).denied))


def ratios_of(losses: np.ndarray, margin: float = 1.0) -> list[Ratio]:
    """The ratios to one reference by length, over seeds and widths, of log losses (widths, 2, seeds, K)."""
    ends = np.stack([np.broadcast_to(COSTS, losses.shape), np.exp(losses)], axis=-1)
    return [ratio for (ratio,) in compute_ratios(ends[None, :, 1], ends[:, 0], margin)]


NEVER = (1.0, 1.0, 1.0)
MARGINS = (1.1, 1.5, 2.0)


def at_margin(margin: float, ratio: float | None = None) -> Truth:
    """A margin, and one reference to which the ratio is the same everywhere: the margin, if it is not given."""
    return Truth(ratios=((ratio or margin,) * len(COSTS),), margin=margin)


# Truths that leave a claim just untrue: at which length or earlier it would be wrong to say that routing pays.
NULLS: dict[str, tuple[Truth, int]] = {
    "no effect at any length": (Truth(ratios=(NEVER, NEVER)), LAST),
    "no effect at two numbers of tokens": (Truth(ratios=(NEVER, NEVER), studied=2), LAST),
    "pays from the second length on": (Truth(ratios=((1.0, 1.5, 2.2),)), FIRST),
    "far better than dense, as good as the control": (Truth(ratios=((2.0, 2.0, 2.0), NEVER)), LAST),
    **{f"gains the margin of {margin:g}, no more": (at_margin(margin), LAST) for margin in MARGINS},
}
VARIANTS: dict[str, dict[str, object]] = {
    "3 seeds": {},
    "3 seeds, noise / 4, another law": {"noise": 0.25, "floor": 0.2, "exponent": 0.35},
    "3 seeds, noise × 5": {"noise": 5.0},
    "5 seeds, one width, skewed": {"seeds": 5, "draw": skewed, "widths": 1},
}
# For which "does not pay" is just untrue.
DENIALS = {
    "as good as both at the longest": Truth(ratios=((0.7, 0.9, 1.0), (0.7, 0.9, 1.0))),
    **{f"gains the margin of {margin:g}": at_margin(margin) for margin in MARGINS},
}
