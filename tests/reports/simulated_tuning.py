"""Rows whose best learning rates are known are tuned and compared, by the thousand: what does choosing cost?

`python -m tests.reports.simulated_tuning` prints the tables of docs/methods/tuning.md. Losses are relative to the
lowest one, and decisions are made on them as if they were FIDs, noise included: all of a choice's
optimism is in them.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tests.reports.simulated_runs import print_row
from tread_bench.core.config.suite import Tune
from tread_bench.core.numbers.statistics import Seeds
from tread_bench.core.stored.records import Candidate, Tuning
from tread_bench.reports import decision
from tread_bench.reports.decision import Choice, decide

RATE = 2e-3  # of the suite: the middle one of the default candidates
# Measured at five rates on three seeds (width 32, 200 iterations on digits). BEND lies between the parabola through all
# rates (0.012) and that through the best three (0.061).
BEND = 0.03  # loss that a factor of two costs beside the optimum
SHARED, OWN = 0.003, 0.015  # standard deviations over seeds: what all rows and rates of a seed share, and the rest
STUDY = 5  # seeds of a study
FAR = 1.0  # by which a route is better in all but the test in question
TUNING_SEEDS = (2, 3, 5)


@dataclass(frozen=True, kw_only=True)
class Truth:
    """The true loss of a row over the logarithm of the learning rate: a parabola.

    Args:
        optimum: in doublings of the suite's rate, for the row's whole length.
        bend: loss that one doubling costs beside the optimum.
        moves: doublings by which the optimum is higher at half the length.
    """

    optimum: float = 0.0
    bend: float = BEND
    moves: float = 0.0

    def loss(self, rate: float, share: float = 1.0) -> float:
        """What the rate costs after a share of the row's length."""
        return self.bend * (math.log2(rate / RATE) - self.optimum + self.moves * math.log2(share)) ** 2


class Trained(NamedTuple):
    """What a run has of a row: how it was tuned, and its losses on the seeds of the study at the chosen rate."""

    tuning: Tuning
    study: Seeds

    @property
    def rate(self) -> float:
        assert self.tuning.best is not None, "all its trainings end"
        return self.tuning.best.value

    @property
    def on_tuning_seeds(self) -> Seeds:
        """The losses by which its rate was chosen."""
        (best,) = (one for one in self.tuning.candidates if one.learning_rate == self.rate)
        return dict(zip(self.tuning.seeds, best.validation_losses, strict=True))


def tuned(truth: Truth, tune: Tune, rng: np.random.Generator, shared: float | np.ndarray = 0.0) -> Tuning:
    """A row's candidates, each trained on every tuning seed; `shared` is what the rows of each seed share."""
    candidates = []
    for rate in tune.rates(RATE):
        losses = 1 + truth.loss(rate, tune.share) + shared + rng.normal(0, OWN, tune.seeds)
        cells = [f"{rate:g}-s{seed}" for seed in tune.seed_numbers]
        candidates.append(Candidate(learning_rate=rate, cells=cells, validation_losses=losses.tolist()))
    return Tuning(candidates=candidates, seeds=list(tune.seed_numbers), share=tune.share)


def run_of(truths: Sequence[Truth], tune: Tune, rng: np.random.Generator, seeds: int = STUDY) -> list[Trained]:
    """One run: every row is tuned, then trained on the seeds of the study at its own rate."""
    of_tuning, of_study = rng.normal(0, SHARED, tune.seeds), rng.normal(0, SHARED, seeds)
    found = []
    for truth in truths:
        row = Trained(tuned(truth, tune, rng, of_tuning), {})
        study = 1 + truth.loss(row.rate) + of_study + rng.normal(0, OWN, seeds)
        found.append(row._replace(study=dict(enumerate(study.tolist()))))
    return found


def decided(dense: Seeds, routes: Sequence[Seeds]) -> decision.Decision:
    """The decision on these losses; at equal time and beside a control every route is far better."""

    def moved(losses: Seeds, by: float) -> Seeds:
        return {seed: loss + by for seed, loss in losses.items()}

    return decide(
        [
            decision.Candidate(
                name=str(place),
                at_macs=(losses, dense),
                at_times=[(moved(losses, -FAR), dense)],
                controls={"control": (losses, moved(losses, FAR))},
            )
            for place, losses in enumerate(routes)
        ]
    )


# 1 and 2. The rate that is chosen.


class Chosen(NamedTuple):
    """Shares of rows, and losses in % of the lowest one."""

    nearest: float  # the chosen candidate is the one nearest to the optimum
    excess: float  # mean loss of the chosen candidate, less that of the best one
    excess_95: float  # the same, 95th percentile
    grid: float  # mean loss of the best candidate, less that at the optimum itself


def chosen(seeds: int, runs: int, bend: float = BEND) -> Chosen:
    """Rows whose optimum lies anywhere within one doubling of the suite's rate."""
    rng = np.random.default_rng(0)
    tune = Tune(seeds=seeds, share=1)
    nearest, excess, grid = [], [], []
    for optimum in rng.uniform(-1, 1, runs):
        truth = Truth(optimum=optimum, bend=bend)
        best = Trained(tuned(truth, tune, rng), {}).rate
        least = min(truth.loss(rate) for rate in tune.rates(RATE))
        nearest.append(truth.loss(best) == least)
        excess.append(100 * (truth.loss(best) - least))
        grid.append(100 * least)
    means = [float(np.mean(one)) for one in (nearest, excess, grid)]
    return Chosen(means[0], means[1], float(np.quantile(excess, 0.95)), means[2])


def untuned(optimum: float, seeds: int, runs: int) -> float:
    """How often a row whose optimum lies there is called untuned."""
    rng = np.random.default_rng(0)
    tune, truth = Tune(seeds=seeds, share=1), Truth(optimum=optimum)
    return float(np.mean([not tuned(truth, tune, rng).best.is_bracketed for _ in range(runs)]))


# 3. The price of choosing.

FLAT, SHARP = Truth(bend=0.0), Truth(bend=1.0)
# Of dense, and of each of the routes. All have the same lowest loss.
NULLS: Mapping[str, tuple[Truth, Truth]] = {
    "all curves as measured": (Truth(), Truth()),
    "all flat": (FLAT, FLAT),
    "routes flat, dense sharp": (SHARP, FLAT),
}
# A doubling costs one standard deviation: no curve makes the luck of a choice count much more.
UNLUCKY = (Truth(bend=OWN), Truth(bend=OWN))


class Verdict(NamedTuple):
    """How often it is decided to route, and the mean difference at equal MACs of the route of lowest loss, in %."""

    route: float
    difference: float


def verdicts(
    null: tuple[Truth, Truth],
    tune: Tune,
    runs: int,
    routes: int = 1,
    seeds: int = STUDY,
    on_tuning_seeds: bool = False,
) -> Verdict:
    """Decide on the seeds of the study; or, as is wrong, on those by which the rates were chosen."""
    rng = np.random.default_rng(0)
    dense, route = null
    found = []
    for _ in range(runs):
        rows = run_of([dense, *[route] * routes], tune, rng, seeds)
        losses = [row.on_tuning_seeds if on_tuning_seeds else row.study for row in rows]
        found.append(decided(losses[0], losses[1:]))
    return Verdict(
        float(np.mean([one.choice is Choice.ROUTE for one in found])),
        float(100 * np.mean([one.tests[0].difference.mean for one in found])),
    )


# 4. The bias of a shorter budget.


class Bias(NamedTuple):
    """Mean true losses of the chosen rates, in % of the lowest one, and how often it is decided to route."""

    dense: float
    difference: float  # route less dense
    route: float


def bias(dense_moves: float, route_moves: float, share: float, runs: int) -> Bias:
    """One route and dense, whose optimum is the same at the whole length: anywhere between two candidates."""
    rng = np.random.default_rng(0)
    tune = Tune(share=share)
    losses, choices = [], []
    for optimum in rng.uniform(-0.5, 0.5, runs):
        truths = [Truth(optimum=optimum, moves=moves) for moves in (dense_moves, route_moves)]
        rows = run_of(truths, tune, rng)
        losses.append([100 * truth.loss(row.rate) for truth, row in zip(truths, rows, strict=True)])
        choices.append(decided(rows[0].study, [rows[1].study]).choice)
    dense, route = np.mean(losses, axis=0)
    return Bias(float(dense), float(route - dense), float(np.mean([one is Choice.ROUTE for one in choices])))


BENDS = {"as measured": BEND, "a quarter of it": BEND / 4}
OPTIMA = (-3.0, -2.0, -1.5, -1.0, 0.0)  # beyond, at the edge, half way to the next candidate, there, in the middle
STUDIES = (5, 10, 20)  # seeds of a study
WIDE = tuple(RATE * 2**k for k in range(-7, 8))  # fifteen candidates
# By how many doublings the optima of dense and of the route move, and the share of the training that chooses.
SHORTER = ((0, 0, 1.0), (0.5, 0.5, 0.5), (1, 1, 0.5), (0, 1, 0.5), (1, 0, 0.5))


def main(runs: int = 2000) -> None:
    print_row("bend", "tuning seeds", "nearest candidate chosen", "loss above the best candidate's", "95th percentile")
    print_row(*["---"] * 5)
    for name, bend in BENDS.items():
        for seeds in TUNING_SEEDS:
            one = chosen(seeds, runs, bend)
            print_row(name, seeds, percent(one.nearest), f"{one.excess:.2f} %", f"{one.excess_95:.2f} %")
        print_row(name, "any", "100 %", f"to the optimum: {one.grid:.2f} %", "")

    print_row("optimum, in doublings", *(f"{seeds} tuning seeds" for seeds in TUNING_SEEDS))
    print_row(*["---"] * (1 + len(TUNING_SEEDS)))
    for optimum in OPTIMA:
        print_row(f"{optimum:+g}", *(percent(untuned(optimum, seeds, runs)) for seeds in TUNING_SEEDS))

    print_row("true curves", "candidates", "routes", "`route` by the study's seeds", "by the tuning seeds")
    print_row(*["---"] * 5)
    for name, null in NULLS.items():
        for candidates, routes in ((None, 1), (None, 4), (WIDE, 1)):
            tune = Tune(candidates=candidates, seeds=STUDY)
            right, wrong = (verdicts(null, tune, runs, routes, on_tuning_seeds=one) for one in (False, True))
            said = (f"{percent(one.route)} ({one.difference:+.2f} %)" for one in (right, wrong))
            print_row(name, len(tune.rates(RATE)), routes, *said)

    print_row("tuning seeds", *(f"{seeds} seeds of the study" for seeds in STUDIES))
    print_row(*["---"] * (1 + len(STUDIES)))
    for tuning in (*TUNING_SEEDS, 10):
        found = (verdicts(UNLUCKY, Tune(seeds=tuning), runs, seeds=seeds) for seeds in STUDIES)
        print_row(tuning, *(percent(one.route) for one in found))

    print_row(
        "share", "dense's optimum moves", "the route's", "dense's loss above its lowest", "route − dense", "`route`"
    )
    print_row(*["---"] * 6)
    for dense, route, share in SHORTER:
        one = bias(dense, route, share, runs)
        print_row(share, dense, route, f"{one.dense:.2f} %", f"{one.difference:+.2f} %", percent(one.route))


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
