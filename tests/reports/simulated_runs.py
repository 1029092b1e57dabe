"""Runs whose truth is known, by the thousand: how often is each decision made?

`python -m tests.reports.simulated_runs` prints the table of docs/methods/decision.md.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tests.reports.test_curves_simulated import EACH
from tread_bench.reports.decision import Candidate, Choice, Learning, decide

Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


def normal(rng, shape):
    return rng.normal(size=shape)


def skewed(rng, shape):
    """Log-normal with standard deviation 1 and mean 0: its skewness is 1.75."""
    s = 0.5
    spread = math.sqrt((math.exp(s * s) - 1) * math.exp(s * s))
    return (rng.lognormal(0, s, shape) - math.exp(s * s / 2)) / spread


def rounded(rng, shape):
    """Values with many ties."""
    return np.round(rng.normal(size=shape))


@dataclass(frozen=True, kw_only=True)
class Truth:
    """The true differences of a run; the standard deviation of a difference over seeds is 1.

    Args:
        routes: at equal training MACs, each route minus dense.
        later: what each of them adds at equal time to that.
        controls: each control minus dense at the same MACs.
        slope: FID per 1 % of training time, which an error of the clock moves.
        clock: standard deviation of the measured speed-up, in %.
        spreads: of the routes, where they are not equal.
    """

    routes: tuple[float, ...]
    later: float = 0.0
    controls: tuple[float, ...] = ()
    slope: float = 0.1
    clock: float = 0.0
    spreads: tuple[float, ...] = ()


def run_of(truth: Truth, seeds: int, draw: Draw, rng: np.random.Generator) -> list[Candidate]:
    """The FIDs of one run; dense and each row have noise of their own, so that a difference has deviation 1."""
    noise = draw(rng, (1 + len(truth.routes) + len(truth.controls), seeds)) / math.sqrt(2)
    shared = rng.normal(size=seeds) * 3
    level = 50 + shared
    dense = level + noise[0]
    spreads = truth.spreads or (1.0,) * len(truth.routes)
    controls = [level + shift + noise[1 + len(truth.routes) + k] for k, shift in enumerate(truth.controls)]
    clock = rng.normal() * truth.clock
    half = 1.96 * truth.clock
    found = []
    for place, shift in enumerate(truth.routes):
        own = level + shift + spreads[place] * noise[1 + place]
        by_clock = [own + truth.later + truth.slope * (clock + move) for move in (0.0, -half, half)]
        found.append(
            Candidate(
                name=str(place),
                at_macs=(_seeds(own), _seeds(dense)),
                at_times=[(_seeds(fids), _seeds(dense)) for fids in by_clock],
                controls={f"control {k}": (_seeds(own), _seeds(fids)) for k, fids in enumerate(controls)},
            )
        )
    return found


def _seeds(values):
    return dict(enumerate(values.tolist()))


def shares(truth: Truth, runs: int, seeds: int = 5, draw: Draw = normal) -> dict[Choice, float]:
    """How often each decision is made."""
    rng = np.random.default_rng(0)
    counts = Counter(decide(run_of(truth, seeds, draw, rng)).choice for _ in range(runs))
    return {choice: counts[choice] / runs for choice in Choice}


def untrained(fall: float, seeds: int, runs: int = 2000) -> float:
    """How often a network is called not trained that comes down to FID 17 from `fall` times as much.

    The noise is that of `route_placement`: what a seed's evaluations share cancels.
    """
    rng = np.random.default_rng(0)
    fids = np.exp(rng.normal(0, EACH, (runs, 2, seeds))) * [[17.0 * fall], [17.0]]
    return float(np.mean([Learning(iterations=(50, 300), first=_seeds(a), last=_seeds(b)).is_missing for a, b in fids]))


FALLS = (1.0, 1.2, 1.5, 2.0, 3.0, 5.0)
FAR = -20.0
# A definite decision -> truths under which it is wrong: each leaves one of its claims just untrue, all others far true.
NULLS: dict[Choice, dict[str, Truth]] = {
    Choice.ROUTE: {
        "no route differs from dense": Truth(routes=(0.0,) * 4, later=FAR, controls=(20.0,)),
        "no route gains at equal time": Truth(routes=(FAR,) * 4, later=-FAR, controls=(0.0,)),
        "one of two controls does as much": Truth(routes=(FAR,) * 4, controls=(FAR, 0.0)),
    },
    Choice.CONTROLS_MISSING: {"no route differs from dense": Truth(routes=(0.0,) * 4)},
    Choice.MACS_NOT_TIME: {
        "the route does as well at equal time": Truth(routes=(FAR,) * 4, later=-FAR, controls=(0.0,)),
        "no route differs from dense": Truth(routes=(0.0,) * 4, later=-FAR, controls=(20.0,)),
    },
    Choice.CONTROL_BETTER: {
        "no control differs from the best route": Truth(routes=(FAR, 0.0, 0.0, 0.0), controls=(FAR,) * 3),
        "no control differs from any route": Truth(routes=(FAR,) * 4, controls=(FAR,) * 3),
    },
    Choice.WORSE: {
        "one route does as well as dense": Truth(routes=(0.0, 20.0, 20.0, 20.0)),
        "no route differs from dense": Truth(routes=(0.0,) * 4),
    },
}
# A decision -> the truth under which it is to be made, and its least share: by the power of each t-test at its level,
# 0.926 at three standard deviations, level 1.25 % and five seeds, less what all of them together may miss.
FOUND: dict[Choice, tuple[Truth, float]] = {
    Choice.ROUTE: (Truth(routes=(-3.0, 0.0, 0.0, 0.0), controls=(0.0, 0.0)), 0.7),
    Choice.CONTROLS_MISSING: (Truth(routes=(-3.0, 0.0, 0.0, 0.0)), 0.9),
    Choice.MACS_NOT_TIME: (Truth(routes=(-3.0, 0.0, 0.0, 0.0), later=6.0, controls=(0.0,)), 0.8),
    Choice.CONTROL_BETTER: (Truth(routes=(-3.0, 0.0, 0.0, 0.0), controls=(-6.0, 0.0)), 0.9),
    Choice.WORSE: (Truth(routes=(3.0, 5.0, 5.0, 5.0)), 0.9),
}


def main(runs: int = 4000) -> None:
    print_row("decision", "truth under which it is wrong", *(str(variant) for variant in VARIANTS))
    print_row(*["---"] * (2 + len(VARIANTS)))
    for choice, truths in NULLS.items():
        for name, truth in truths.items():
            print_row(choice, name, *(f"{100 * variant.share(truth, choice, runs):.1f}" for variant in VARIANTS))
    print_row("decision", "routes − dense", "controls − dense", "at equal time", "made in", "at least")
    print_row(*["---"] * 6)
    for choice, (truth, least) in FOUND.items():
        share = shares(truth, runs)[choice]
        print_row(choice, truth.routes, truth.controls, f"{truth.later:+g}", f"{100 * share:.1f}", f"{100 * least:g}")
    print_row("first FID, of the last", *FALLS)
    print_row(*["---"] * (1 + len(FALLS)))
    for seeds in (2, 3, 5):
        print_row(f"{seeds} seeds", *(f"{100 * untrained(fall, seeds, runs):.1f}" for fall in FALLS))


def print_row(*cells: object) -> None:
    sys.stdout.write(f"| {' | '.join(map(str, cells))} |\n")


@dataclass(frozen=True)
class Variant:
    """How the noise of a run is made."""

    seeds: int
    draw: Draw = normal
    clock: float = 0.0
    spreads: tuple[float, ...] = ()

    def __str__(self) -> str:
        clock = f", clock {self.clock:g} %" if self.clock else ""
        spreads = ", unequal spreads" if self.spreads else ""
        return f"{self.seeds} seeds, {self.draw.__name__}{clock}{spreads}"

    def share(self, truth: Truth, choice: Choice, runs: int) -> float:
        changed = replace(truth, clock=self.clock, spreads=self.spreads)
        return shares(changed, runs, self.seeds, self.draw)[choice]


VARIANTS = (
    Variant(3),
    Variant(5),
    Variant(10),
    Variant(5, clock=2.0),
    Variant(5, clock=4.0),
    Variant(5, rounded),
    Variant(5, skewed),
    Variant(5, spreads=(3.0, 0.3, 0.3, 0.3)),
    Variant(5, skewed, spreads=(3.0, 0.3, 0.3, 0.3)),
)

if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4000)
