"""Runs whose truth is known: how often is each decision made?"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tread_bench.core.numbers.statistics import Seeds
from tread_bench.reports.decision import Candidate, Choice, Learning, decide

Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
EACH = 0.05  # standard deviation of log FID over the evaluations of a training


def normal(rng, shape):
    return rng.normal(size=shape)


def skewed(rng, shape):
    """Log-normal with standard deviation 1 and mean 0: its skewness is 1.75."""
    s = 0.5
    spread = math.sqrt((math.exp(s * s) - 1) * math.exp(s * s))
    return (rng.lognormal(0, s, shape) - math.exp(s * s / 2)) / spread


@dataclass(frozen=True, kw_only=True)
class Truth:
    """The true differences of a run; the standard deviation of a difference over seeds is 1.

    Args:
        routes: at equal training MACs, each route minus dense.
        later: what each of them adds at equal time to that.
        controls: each control minus dense at the same MACs.
    """

    routes: tuple[float, ...]
    later: float = 0.0
    controls: tuple[float, ...] = ()


def run_of(truth: Truth, rng: np.random.Generator, seeds: int = 5) -> list[Candidate]:
    """The FIDs of one run; dense and each row have noise of their own, so that a difference has deviation 1."""
    noise = rng.normal(size=(1 + len(truth.routes) + len(truth.controls), seeds)) / math.sqrt(2)
    level = 50 + rng.normal(size=seeds) * 3
    dense = _seeds(level + noise[0])
    controls = [_seeds(level + shift + noise[-1 - k]) for k, shift in enumerate(truth.controls)]
    found = []
    for place, shift in enumerate(truth.routes):
        own = level + shift + noise[1 + place]
        found.append(
            Candidate(
                name=str(place),
                at_macs=(_seeds(own), dense),
                at_times=[(_seeds(own + truth.later), dense)],
                controls={f"control {k}": (_seeds(own), fids) for k, fids in enumerate(controls)},
            )
        )
    return found


def _seeds(values: np.ndarray) -> Seeds:
    return dict(enumerate(values.tolist()))


def shares(truth: Truth, runs: int) -> dict[Choice, float]:
    """How often each decision is made."""
    rng = np.random.default_rng(0)
    counts = Counter(decide(run_of(truth, rng)).choice for _ in range(runs))
    return {choice: counts[choice] / runs for choice in Choice}


def untrained(fall: float, seeds: int, runs: int = 1000) -> float:
    """How often a network is called not trained that comes down to FID 17 from `fall` times as much."""
    rng = np.random.default_rng(0)
    fids = np.exp(rng.normal(0, EACH, (runs, 2, seeds))) * [[17.0 * fall], [17.0]]
    return float(np.mean([Learning(iterations=(50, 300), first=_seeds(a), last=_seeds(b)).is_missing for a, b in fids]))


FAR = -20.0
# Definite decisions under truths that leave one of their claims just untrue, all others far true.
NULLS = [
    (Choice.ROUTE, Truth(routes=(0.0,) * 4, later=FAR, controls=(20.0,))),
    (Choice.ROUTE, Truth(routes=(FAR,) * 4, later=-FAR, controls=(0.0,))),
    (Choice.ROUTE, Truth(routes=(FAR,) * 4, controls=(FAR, 0.0))),
    (Choice.CONTROLS_MISSING, Truth(routes=(0.0,) * 4)),
    (Choice.MACS_NOT_TIME, Truth(routes=(0.0,) * 4, later=-FAR, controls=(20.0,))),
    (Choice.CONTROL_BETTER, Truth(routes=(FAR, 0.0, 0.0, 0.0), controls=(FAR,) * 3)),
    (Choice.WORSE, Truth(routes=(0.0, 20.0, 20.0, 20.0))),
]
# Decisions, the truths under which they are to be made, and their least shares: by the power of each t-test at its
# level, 0.926 at three standard deviations, level 1.25 % and five seeds, less what all of them together may miss.
FOUND = [
    (Choice.ROUTE, Truth(routes=(-3.0, 0.0, 0.0, 0.0), controls=(0.0, 0.0)), 0.7),
    (Choice.CONTROLS_MISSING, Truth(routes=(-3.0, 0.0, 0.0, 0.0)), 0.9),
    (Choice.MACS_NOT_TIME, Truth(routes=(-3.0, 0.0, 0.0, 0.0), later=6.0, controls=(0.0,)), 0.8),
    (Choice.CONTROL_BETTER, Truth(routes=(-3.0, 0.0, 0.0, 0.0), controls=(-6.0, 0.0)), 0.9),
    (Choice.WORSE, Truth(routes=(3.0, 5.0, 5.0, 5.0)), 0.9),
]
