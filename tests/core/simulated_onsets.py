"""Onset studies whose truth is known, by the thousand: how often does the rule err, and what does it find?

`python -m tests.core.simulated_onsets` prints the tables of docs/methods/onset.md.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy import optimize

from tests.reports.simulated_runs import Draw, normal, skewed
from tread_bench.core.numbers.curves import Curve
from tread_bench.core.numbers.onset import LogRatio, Onset, Ratio, log_ratios, onset

COSTS = (1.0, 4.0, 16.0)  # total training MACs, in steps of four
SHARED, TRUNK, OWN = 0.02, 0.002, 0.002  # standard deviations of log loss


def law(log_cost):
    """The routed arm's loss in the mean, convex in the logs: its slope falls from -0.17 to -0.11 over the budgets."""
    return 0.1 + 0.2 * np.exp(-0.25 * log_cost)


@dataclass(frozen=True, kw_only=True)
class Truth:
    """The true compute ratios of a study, and its noise.

    Args:
        ratios: per reference, C_reference / C_routed at the reference's three budgets, log-linear between them.
        noise: factor of the noise that arms do not share.
        studied: numbers of tokens, each with the same truth and noise of its own.
    """

    ratios: tuple[tuple[float, ...], ...]
    seeds: int = 3
    widths: int = 2
    noise: float = 1.0
    draw: Draw = normal
    margin: float = 1.0
    studied: int = 1

    def gain(self, reference: int, log_cost: float) -> float:
        """The log ratio at a cost of a reference; beyond the budgets, the line goes on."""
        x, logs = np.log(COSTS), np.log(self.ratios[reference])
        place = min(max(int(np.searchsorted(x, log_cost)) - 1, 0), len(x) - 2)
        slope = (logs[place + 1] - logs[place]) / (x[place + 1] - x[place])
        return float(logs[place] + slope * (log_cost - x[place]))

    def losses(self, reference: int | None) -> np.ndarray:
        """(K,) without noise; None is the routed arm."""
        x = np.log(COSTS)
        return law(x if reference is None else x - [self.gain(reference, one) for one in x])

    def true_log_ratio(self, place: int, reference: int = 0) -> float:
        """At the loss at which the two arms are compared there."""
        routed, other = self.losses(None)[place], self.losses(reference)[place]
        if (other > routed) == (place > 0):
            return self.gain(reference, math.log(COSTS[place]))
        log_cost = math.log(COSTS[place])  # the routed arm's; that of the reference is x, with x - gain(x) = log_cost
        x = optimize.brentq(lambda x: x - self.gain(reference, x) - log_cost, log_cost - 3, log_cost + 3)
        return x - log_cost


def study_of(truth: Truth, rng: np.random.Generator, excess: float | np.ndarray = 0.0) -> list[list[Ratio]]:
    """The ratios of one number of tokens, by length and reference; `excess` is log loss that all seeds have more."""
    arms = [None, *range(len(truth.ratios))]
    shared = SHARED * rng.normal(size=(truth.widths, 1, truth.seeds, 1))
    trunk = TRUNK * truth.draw(rng, (truth.widths, len(arms), truth.seeds, 1))
    own = OWN * truth.draw(rng, (truth.widths, len(arms), truth.seeds, len(COSTS)))
    losses = np.stack([truth.losses(arm) for arm in arms])[:, None] * np.exp(
        shared + truth.noise * (trunk + own) + excess
    )
    found: list[list[Ratio]] = [[] for _ in COSTS]
    for reference in range(1, len(arms)):
        of_widths = []
        for width in losses:
            pairs = [
                (Curve(COSTS, a), Curve(COSTS, b))
                for a, b in zip(width[reference].tolist(), width[0].tolist(), strict=True)
            ]
            of_widths.append([log_ratios(*pair, truth.margin) for pair in pairs])
        for place in range(len(COSTS)):
            found[place].append(Ratio.mean_of([Ratio(dict(enumerate(_at(place, one)))) for one in of_widths]))
    return found


def _at(place: int, of_seeds: list[list[LogRatio] | None]) -> Iterator[LogRatio | None]:
    return (one and one[place] for one in of_seeds)


def onsets(truth: Truth, runs: int) -> list[list[Onset]]:
    """What the rule says of each number of tokens of each study."""
    rng = np.random.default_rng(0)
    return [[onset(study_of(truth, rng), truth.studied) for _ in range(truth.studied)] for _ in range(runs)]


def pays_in(truth: Truth, runs: int, from_place: int) -> float:
    """Share of studies in which some number of tokens is said to pay from this length on, or an earlier one."""
    return float(
        np.mean([any(one.first is not None and one.first <= from_place for one in s) for s in onsets(truth, runs)])
    )


def answers_in(truth: Truth, runs: int, answer: str) -> float:
    """Share of studies in which some number of tokens has this answer."""
    return float(np.mean([any(one.answer == answer for one in study) for study in onsets(truth, runs)]))


def coverages(truth: Truth, runs: int) -> list[float]:
    """Share of 95 % intervals of the first reference's ratio that have the truth, by length; a bound has none."""
    rng = np.random.default_rng(0)
    true = [math.exp(truth.true_log_ratio(place)) for place in range(len(COSTS))]
    covers: list[list[bool]] = [[] for _ in COSTS]
    for _ in range(runs):
        for place, at_length in enumerate(study_of(truth, rng)):
            found = at_length[0].estimate
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
    """What the chosen rates cost, (widths, arms, 1, K) of log loss, and what the suite finds out about them."""

    excess: np.ndarray
    has_moved: bool
    is_at_edge: bool


def chosen(truth: Truth, rates: Rates, rng: np.random.Generator) -> Chosen:
    """Choose the rate of each width and arm at the shortest length; the first width tries all at the longest again."""
    moves = np.array([rates.moves[0], *[rates.moves[1]] * len(truth.ratios)])
    first = rng.uniform(2.5, 3.5, (1 if rates.are_alike else len(moves), 1))
    best = first - moves[:, None] * np.linspace(0, 1, len(COSTS))
    excess = rates.bend * (CANDIDATES - best[..., None]) ** 2  # (arms, K, candidates)
    spread = truth.noise * math.hypot(TRUNK, OWN) / math.sqrt(rates.seeds)
    found = np.argmin(excess + spread * truth.draw(rng, (truth.widths, *excess.shape)), axis=-1)  # (widths, arms, K)
    at = found if rates.at_each_length else found[..., :1]
    return Chosen(
        excess=rates.bend * (at - best)[:, :, None] ** 2,
        has_moved=not rates.at_each_length and bool((found[0, :, -1] != found[0, :, 0]).any()),
        is_at_edge=bool(np.isin(at, (CANDIDATES[0], CANDIDATES[-1])).any()),
    )


class Shares(NamedTuple):
    """Shares of studies whose learning rates are chosen."""

    pays: float  # said to pay
    moved: float  # said to have a best rate that moved


def with_chosen_rates(truth: Truth, rates: Rates, runs: int) -> Shares:
    """What studies of one number of tokens find."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(runs):
        at = chosen(truth, rates, rng)
        is_settled = not at.has_moved and not at.is_at_edge
        found.append((is_settled and onset(study_of(truth, rng, at.excess)).answer == "pays", at.has_moved))
    return Shares(*np.mean(found, axis=0).tolist())


LAST, MIDDLE, FIRST = 2, 1, 0
NEVER = (1.0, 1.0, 1.0)
# Truths that leave a claim just untrue: at which length or earlier it would be wrong to say that routing pays.
NULLS: dict[str, tuple[Truth, int]] = {
    "no effect at any length": (Truth(ratios=(NEVER, NEVER)), LAST),
    "no effect, without a control": (Truth(ratios=(NEVER,)), LAST),
    "no effect at two numbers of tokens": (Truth(ratios=(NEVER, NEVER), studied=2), LAST),
    "worse at first, as good at the longest": (Truth(ratios=((0.6, 0.8, 1.0),)), LAST),
    "pays from the second length on": (Truth(ratios=((1.0, 1.5, 2.2),)), FIRST),
    "pays at the longest alone": (Truth(ratios=((0.7, 1.0, 1.5),)), MIDDLE),
    "far better than dense, as good as the control": (Truth(ratios=((2.0, 2.0, 2.0), NEVER)), LAST),
    "gains the margin of 1.1, no more": (Truth(ratios=((1.1, 1.1, 1.1),), margin=1.1), LAST),
}
VARIANTS: dict[str, dict[str, object]] = {
    "3 seeds": {},
    "5 seeds": {"seeds": 5},
    "3 seeds, noise × 5": {"noise": 5.0},
    "5 seeds, one width, skewed": {"seeds": 5, "draw": skewed, "widths": 1},
}
BARELY = Truth(ratios=((0.7, 0.9, 1.0), (0.7, 0.9, 1.0)))  # for which "not within what was measured" is just untrue


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
    shares = [answers_in(changed, runs, "does not pay") for changed in _varied(BARELY)]
    print_row("*not within*: as good as both at the longest", *(f"{100 * share:.1f}" for share in shares))

    print_row("ratio at the longest", "answer", *VARIANTS)
    print_row(*["---"] * (2 + len(VARIANTS)))
    for ratio, answer in ((1.05, "pays"), (1.2, "pays"), (1.5, "pays"), (0.95, "does not pay"), (0.8, "does not pay")):
        shares = [answers_in(changed, runs, answer) for changed in _varied(rising(ratio))]
        print_row(ratio, answer, *(f"{100 * share:.0f}" for share in shares))

    print_row("true ratios", *VARIANTS)
    print_row(*["---"] * (1 + len(VARIANTS)))
    for ratios in ((0.7, 0.7, 0.7), NEVER, (1.2, 1.2, 1.2), (2.0, 2.0, 2.0), (0.7, 1.0, 1.5)):
        found = [coverages(changed, runs) for changed in _varied(Truth(ratios=(ratios,)))]
        print_row(ratios, *(", ".join(f"{100 * share:.1f}" for share in one) for one in found))

    print_row("best rate", *(f"{seeds} tuning seeds, noise × {noise:g}" for seeds, noise in TUNED))
    print_row(*["---"] * (1 + len(TUNED)))
    for name, rates in MOVES.items():
        print_row(name, *(_tuned(replace(rates, seeds=seeds), noise, runs) for seeds, noise in TUNED))


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
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 600)
