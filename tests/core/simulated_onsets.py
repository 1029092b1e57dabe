"""Onset studies whose truth is known, by the thousand: how often does the rule err, and what does it find?

`python -m tests.core.simulated_onsets` prints the tables of docs/methods/onset.md.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy import optimize

from tests.reports.simulated_runs import Draw, normal, skewed
from tread_bench.core.numbers.onset import Ratio, advantages, compute_ratios, p_value_of, sequence
from tread_bench.core.numbers.statistics import LEVEL

COSTS = (1.0, 4.0, 16.0)  # total training MACs, in steps of four
# Standard deviations of log loss: of a seed in all arms; of an arm's seed at all lengths, which begin with the same
# weights and see the same data in one order; of one training.
SHARED, OF_ARM, OWN = 0.02, 0.002, 0.002
LAST, MIDDLE, FIRST = 2, 1, 0


@dataclass(frozen=True, kw_only=True)
class Truth:
    """The true compute ratios of a study, and its noise.

    Args:
        ratios: per reference, C_reference / C_routed at the reference's three budgets, log-linear between them.
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

    def gain(self, reference: int, log_cost: float) -> float:
        """The log ratio at a cost of a reference; beyond the budgets, the line goes on."""
        x, logs = np.log(COSTS), np.log(self.ratios[reference])
        place = min(max(int(np.searchsorted(x, log_cost)) - 1, 0), len(x) - 2)
        slope = (logs[place + 1] - logs[place]) / (x[place + 1] - x[place])
        return float(logs[place] + slope * (log_cost - x[place]))

    def losses(self, reference: int | None) -> np.ndarray:
        """(K,) without noise; None is the routed arm."""
        x = np.log(COSTS)
        if reference is not None:
            x = x - [self.gain(reference, one) for one in x]
        return self.floor + 0.2 * np.exp(-self.exponent * x)

    def true_log_ratio(self, place: int, reference: int = 0) -> float:
        """At the loss at which the two arms are compared there."""
        routed, other = self.losses(None)[place], self.losses(reference)[place]
        if (other > routed) == (place > 0):
            return self.gain(reference, math.log(COSTS[place]))
        log_cost = math.log(COSTS[place])  # the routed arm's; that of the reference is x, with x - gain(x) = log_cost
        x = optimize.brentq(lambda x: x - self.gain(reference, x) - log_cost, log_cost - 3, log_cost + 3)
        return x - log_cost


def log_losses(truth: Truth, rng: np.random.Generator, runs: int, excess: float | np.ndarray = 0.0) -> np.ndarray:
    """Studies of one number of tokens, (runs, widths, arms, seeds, K), the routed arm first; `excess` is log loss that
    all seeds have more.
    """
    arms = [None, *range(len(truth.ratios))]
    shared = SHARED * rng.normal(size=(runs, truth.widths, 1, truth.seeds, 1))
    of_arm = OF_ARM * truth.draw(rng, (runs, truth.widths, len(arms), truth.seeds, 1))
    own = OWN * truth.draw(rng, (runs, truth.widths, len(arms), truth.seeds, len(COSTS)))
    without_noise = np.log([truth.losses(arm) for arm in arms])[:, None]
    return without_noise + shared + truth.noise * (of_arm + own) + excess


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


def coverages(truth: Truth, runs: int) -> list[float]:
    """Share of 95 % intervals of the first reference's ratio that have the truth, by length; a bound has none."""
    true = [math.exp(truth.true_log_ratio(place)) for place in range(len(COSTS))]
    covers: list[list[bool]] = [[] for _ in COSTS]
    for study in log_losses(truth, np.random.default_rng(0), runs)[:, :, :2]:
        for place, ratio in enumerate(ratios_of(study)):
            found = ratio.estimate
            if found is not None and found.bounds is not None:
                covers[place].append(found.low <= true[place] <= found.high)
    return [float(np.mean(one)) for one in covers]


CANDIDATES = np.arange(6)  # learning rates of suites/onset_cpu.yaml, in doublings of the lowest


@dataclass(frozen=True, kw_only=True)
class Rates:
    """How log loss depends on the learning rate, and how many tuning seeds choose one.

    At the shortest length the best rate lies anywhere within half a doubling of the fourth candidate.

    Args:
        bend: log loss that one doubling costs beside the best rate.
        moves: doublings by which the best rate falls from the shortest length to the longest, of the routed arm and of
            its references.
        are_alike: all arms have the same best rate at the shortest length.
        at_each_length: every length chooses its own, and nothing is checked.
    """

    seeds: int = 1
    bend: float = 0.03
    moves: tuple[float, float] = (0.0, 0.0)
    are_alike: bool = True
    at_each_length: bool = False


class Chosen(NamedTuple):
    """What the chosen rates cost, (runs, widths, arms, 1, K) of log loss, and what the suites find out, (runs,)."""

    excess: np.ndarray
    has_moved: np.ndarray
    is_at_edge: np.ndarray


def chosen(truth: Truth, rates: Rates, rng: np.random.Generator, runs: int) -> Chosen:
    """Choose the rate of each width and arm at the shortest length; the first width tries all at the longest again."""
    moves = np.array([rates.moves[0], *[rates.moves[1]] * len(truth.ratios)])
    first = rng.uniform(2.5, 3.5, (runs, 1 if rates.are_alike else len(moves), 1))
    best = first - moves[:, None] * np.linspace(0, 1, len(COSTS))  # (runs, arms, K)
    excess = rates.bend * (CANDIDATES - best[..., None]) ** 2  # (runs, arms, K, candidates)
    spread = truth.noise * math.hypot(OF_ARM, OWN) / math.sqrt(rates.seeds)
    noise = spread * truth.draw(rng, (truth.widths, *excess.shape))
    found = np.moveaxis(np.argmin(excess + noise, axis=-1), 0, 1)  # (runs, widths, arms, K)
    at = found if rates.at_each_length else found[..., :1]
    has_moved = (found[:, 0, :, -1] != found[:, 0, :, 0]).any(axis=-1)
    return Chosen(
        excess=rates.bend * (at - best[:, None])[:, :, :, None] ** 2,
        has_moved=has_moved & (not rates.at_each_length),
        is_at_edge=np.isin(at, (CANDIDATES[0], CANDIDATES[-1])).any(axis=(1, 2, 3)),
    )


class Shares(NamedTuple):
    """Shares of studies whose learning rates are chosen."""

    pays: float  # said to pay
    moved: float  # said to have a best rate that moved


def with_chosen_rates(truth: Truth, rates: Rates, runs: int) -> Shares:
    """What studies of one number of tokens find."""
    rng = np.random.default_rng(0)
    at = chosen(truth, rates, rng, runs)
    pays = answers_of(log_losses(truth, rng, runs, at.excess)).first <= LAST
    return Shares(float(np.mean(pays & ~at.has_moved & ~at.is_at_edge)), float(np.mean(at.has_moved)))


NEVER = (1.0, 1.0, 1.0)
MARGINS = (1.1, 1.5, 2.0)


def at_margin(margin: float, ratio: float | None = None) -> Truth:
    """A margin, and one reference to which the ratio is the same everywhere: the margin, if it is not given."""
    return Truth(ratios=((ratio or margin,) * len(COSTS),), margin=margin)


# Truths that leave a claim just untrue: at which length or earlier it would be wrong to say that routing pays.
NULLS: dict[str, tuple[Truth, int]] = {
    "no effect at any length": (Truth(ratios=(NEVER, NEVER)), LAST),
    "no effect, without a control": (Truth(ratios=(NEVER,)), LAST),
    "no effect at two numbers of tokens": (Truth(ratios=(NEVER, NEVER), studied=2), LAST),
    "worse at first, as good at the longest": (Truth(ratios=((0.6, 0.8, 1.0),)), LAST),
    "pays from the second length on": (Truth(ratios=((1.0, 1.5, 2.2),)), FIRST),
    "pays at the longest alone": (Truth(ratios=((0.7, 1.0, 1.5),)), MIDDLE),
    "far better than dense, as good as the control": (Truth(ratios=((2.0, 2.0, 2.0), NEVER)), LAST),
    **{f"gains the margin of {margin:g}, no more": (at_margin(margin), LAST) for margin in MARGINS},
}
VARIANTS: dict[str, dict[str, object]] = {
    "3 seeds": {},
    "5 seeds": {"seeds": 5},
    "3 seeds, noise / 4": {"noise": 0.25},
    "3 seeds, noise / 4, another law": {"noise": 0.25, "floor": 0.2, "exponent": 0.35},
    "3 seeds, noise × 5": {"noise": 5.0},
    "5 seeds, one width, skewed": {"seeds": 5, "draw": skewed, "widths": 1},
}
# For which "does not pay" is just untrue.
DENIALS = {
    "as good as both at the longest": Truth(ratios=((0.7, 0.9, 1.0), (0.7, 0.9, 1.0))),
    **{f"gains the margin of {margin:g}": at_margin(margin) for margin in MARGINS},
}


def rising(ratio: float, references: int = 2) -> Truth:
    """A ratio at the longest length, its inverse at the first, and 1 between them, against every reference."""
    return Truth(ratios=((1 / ratio, 1.0, ratio),) * references)


AS_GOOD = NULLS["far better than dense, as good as the control"][0]
# How the best rate moves with the length, and what a doubling costs: between 1.2 and 6.1 % where it was measured.
MOVES: dict[str, Rates] = {
    "stays, 3 %": Rates(),
    "stays, 0.75 %": Rates(bend=0.0075),
    "falls by half a doubling": Rates(moves=(0.5, 0.5)),
    "falls by one doubling": Rates(moves=(1.0, 1.0)),
    "falls by two doublings": Rates(moves=(2.0, 2.0)),
    "falls by half a doubling, the route's stays": Rates(moves=(0.0, 0.5)),
    "falls by one doubling, the route's stays": Rates(moves=(0.0, 1.0)),
    "stays, and is another one for each arm": Rates(are_alike=False),
    "falls by one doubling, each length tuned": Rates(moves=(1.0, 1.0), at_each_length=True),
    "falls by one doubling, the route's stays, each length tuned": Rates(moves=(0.0, 1.0), at_each_length=True),
}
TUNED = ((1, 1.0), (1, 5.0), (3, 1.0), (3, 5.0))  # tuning seeds, and the factor of the noise


def main(runs: int) -> None:
    print_row("truth under which it is wrong", *VARIANTS)
    print_row(*["---"] * (1 + len(VARIANTS)))
    for name, (truth, place) in NULLS.items():
        print_row(name, *(f"{100 * pays_in(changed, runs, place):.1f}" for changed in _varied(truth)))
    for name, truth in DENIALS.items():
        print_row(f"*does not pay*: {name}", *(f"{100 * denied_in(changed, runs):.1f}" for changed in _varied(truth)))

    print_row("margin", "ratio", "answer", *VARIANTS)
    print_row(*["---"] * (3 + len(VARIANTS)))
    for ratio, share in ((1.05, pays_in), (1.2, pays_in), (1.5, pays_in), (0.95, denied_in), (0.8, denied_in)):
        print_power(rising(ratio), share, runs)
    for margin in MARGINS:
        for factor, share in ((1.05, pays_in), (1.2, pays_in), (0.95, denied_in), (0.8, denied_in)):
            print_power(at_margin(margin, factor * margin), share, runs)

    print_row("true ratios", *VARIANTS)
    print_row(*["---"] * (1 + len(VARIANTS)))
    for ratios in ((0.7, 0.7, 0.7), NEVER, (1.2, 1.2, 1.2), (2.0, 2.0, 2.0), (0.7, 1.0, 1.5)):
        found = [coverages(changed, min(runs, 2000)) for changed in _varied(Truth(ratios=(ratios,)))]
        print_row(ratios, *(", ".join(f"{100 * share:.1f}" for share in one) for one in found))

    print_row("best rate", *(f"{seeds} tuning seeds, noise × {noise:g}" for seeds, noise in TUNED))
    print_row(*["---"] * (1 + len(TUNED)))
    for name, rates in MOVES.items():
        print_row(name, *(_tuned(replace(rates, seeds=seeds), noise, runs) for seeds, noise in TUNED))


def print_power(truth: Truth, share: Callable[[Truth, int], float], runs: int) -> None:
    """A row of the shares of studies with the answer."""
    answer = "pays" if share is pays_in else "does not pay"
    found = [f"{100 * share(changed, runs):.0f}" for changed in _varied(truth)]
    print_row(f"{truth.margin:g}", f"{truth.ratios[0][-1]:.3g}", answer, *found)


def _tuned(rates: Rates, noise: float, runs: int) -> str:
    """False claims, power, and studies whose best rate is said to have moved."""
    false, found = (with_chosen_rates(replace(truth, noise=noise), rates, runs) for truth in (AS_GOOD, rising(1.5)))
    return ", ".join(f"{100 * share:.1f}" for share in (false.pays, found.pays, false.moved))


def _varied(truth: Truth) -> Iterator[Truth]:
    return (replace(truth, **variant) for variant in VARIANTS.values())


def print_row(*cells: object) -> None:
    sys.stdout.write(f"| {' | '.join(map(str, cells))} |\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000)
