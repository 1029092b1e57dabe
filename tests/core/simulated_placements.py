"""Studies of placements whose truth is known: how often is a measurement found to rank them?

`python -m tests.core.simulated_placements` prints the tables of docs/methods/choosing-a-place.md.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

import numpy as np

from tread_bench.core.numbers.ranks import rank_correlation
from tread_bench.core.numbers.statistics import MeanInterval


@dataclass(frozen=True, kw_only=True)
class Truth:
    """What a placement is worth, and what is measured of it; all are normal, and a placement's own part has variance 1.

    Args:
        relation: correlation of a placement's true outcome with what the predictor measures of it without noise.
        noise: standard deviation of what one group of seeds adds, to the outcome and to the predictor.
        placements: number of them.
    """

    relation: float
    noise: float
    placements: int = 16

    @property
    def correlation(self) -> float:
        """Spearman's, of the predictor of one group with the outcome of the other, over all possible placements."""
        return _spearman(self.relation / (1 + self.noise**2))

    @property
    def ceiling(self) -> float:
        """That of the outcomes of both groups."""
        return _spearman(1 / (1 + self.noise**2))


def _spearman(pearson: float) -> float:
    """That of a bivariate normal distribution (Pearson 1907)."""
    return 6 / math.pi * math.asin(pearson / 2)


def found(truth: Truth, studies: int, confidence: float = 0.95) -> list[MeanInterval]:
    """The interval of each study: the predictor of one group of seeds against the outcome of the other, both ways."""
    rng = np.random.default_rng(round(1000 * truth.relation) + round(10 * truth.noise) + truth.placements)
    intervals = []
    for _ in range(studies):
        worth, other = rng.normal(size=(2, truth.placements))
        measured = truth.relation * worth + math.sqrt(1 - truth.relation**2) * other
        outcomes = worth + truth.noise * rng.normal(size=(2, truth.placements))
        predictors = measured + truth.noise * rng.normal(size=(2, truth.placements))
        pairs = [(predictors[0], outcomes[1]), (predictors[1], outcomes[0])]
        interval = rank_correlation(pairs, confidence)
        assert interval is not None
        intervals.append(interval)
    return intervals


@dataclass(frozen=True, kw_only=True)
class Counting:
    """Places on a grid whose outcome falls with the number of bypassed blocks, and a predictor that falls with it, too.

    Args:
        own: what outcome and predictor share beyond the number of blocks: the standard deviation of a place's own part,
            where the numbers of blocks have 1.
        noise: standard deviation of what one group of seeds adds, to the outcome and to the predictor.
        bent: power of the number of blocks that the outcome falls with.
    """

    own: float
    noise: float
    bent: float = 1


def beyond(truth: Counting, studies: int, confidence: float = 0.95) -> list[MeanInterval]:
    """The interval of each study, given the number of blocks of `placement_grid`'s places."""
    rng = np.random.default_rng(round(1000 * truth.own) + round(10 * truth.noise) + round(100 * truth.bent))
    blocks = np.array([last + 1 - first for first in range(4) for last in range(4, 8)], dtype=np.float64)
    counted, outcome = (-(values - values.mean()) / values.std() for values in (blocks, blocks**truth.bent))
    intervals = []
    for _ in range(studies):
        own = truth.own * rng.normal(size=len(blocks))
        # Without noise a predictor is the number of blocks and nothing else: it has something of its own, of no use.
        of_no_use = 0.3 * rng.normal(size=len(blocks))
        outcomes = outcome + own + 0.3 * rng.normal(size=len(blocks)) + truth.noise * rng.normal(size=(2, len(blocks)))
        predictors = counted + own + of_no_use + truth.noise * rng.normal(size=(2, len(blocks)))
        pairs = [(predictors[0], outcomes[1]), (predictors[1], outcomes[0])]
        interval = rank_correlation(pairs, confidence, given=blocks)
        assert interval is not None
        intervals.append(interval)
    return intervals


def table(studies: int = 4000) -> None:
    """Print how often zero is excluded and the truth covered, in per cent; then, beyond the number of blocks."""
    sys.stdout.write("relation  noise  true  ceiling  above 0, %  covered, %\n")
    for relation in (0.0, 0.3, 0.6, 0.9):
        for noise in (0.0, 0.3, 0.5, 1.0):
            truth = Truth(relation=relation, noise=noise)
            intervals = found(truth, studies)
            above = 100 * np.mean([one.low > 0 for one in intervals])
            covered = 100 * np.mean([not one.excludes(truth.correlation) for one in intervals])
            line = f"{relation:8} {noise:6} {truth.correlation:5.2f} {truth.ceiling:8.2f} {above:11.1f} {covered:11.1f}"
            sys.stdout.write(f"{line}\n")
    sys.stdout.write("\nown part  noise  power  above 0, %\n")
    for own, bent in ((0.0, 1), (0.0, 2), (0.3, 1), (1.0, 1)):
        for noise in (0.0, 0.3, 1.0):
            intervals = beyond(Counting(own=own, noise=noise, bent=bent), studies)
            above = 100 * np.mean([one.low > 0 for one in intervals])
            sys.stdout.write(f"{own:8} {noise:6} {bent:6} {above:11.1f}\n")


if __name__ == "__main__":
    table()
