"""The choice of a learning rate against a known optimum: edges, divergence, and what the study's seeds see of it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from tread_bench.core.numbers.statistics import best_of, extended
from tread_bench.core.stored.records import Candidate, Tuning

RATES = [0.25, 0.5, 1.0, 2.0, 4.0]


def losses(optimum: float, noise: float, rng: np.random.Generator, seeds: int = 2) -> dict[float, float]:
    """Mean losses of a parabola over the logarithm of the rate, with noise of each seed."""
    return {rate: math.log2(rate / optimum) ** 2 + rng.normal(0, noise, seeds).mean() for rate in RATES}


@pytest.mark.parametrize("optimum", [0.5, 1.0, 2.0])
def test_the_nearest_candidate_to_the_optimum_is_chosen(optimum):
    rng = np.random.default_rng(0)
    chosen = [best_of(losses(optimum * 1.2, 0.2, rng)) for _ in range(500)]
    assert np.mean([one.value == optimum and one.is_bracketed for one in chosen]) > 0.95


@pytest.mark.parametrize("optimum", [0.02, 50.0])
def test_an_optimum_beyond_the_range_is_found_at_its_edge(optimum):
    rng = np.random.default_rng(1)
    assert all(not best_of(losses(optimum, 0.2, rng)).is_bracketed for _ in range(200))


def test_what_diverged_brackets_and_what_is_unknown_does_not():
    assert best_of({1.0: 2.0, 2.0: 1.0, 4.0: math.inf}) == (2.0, True)
    assert best_of({1.0: 2.0, 2.0: 1.0, 4.0: None}) == (2.0, False)
    assert best_of({1.0: None, 2.0: math.inf}) is None
    assert best_of({2.0: 1.0, 1.0: 1.0}).value == 1.0


def test_a_range_is_extended_at_its_own_ratio():
    assert extended([1.0, 2.0, 4.0], below=True, above=True) == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0]
    assert extended([1.0, 2.0, 4.0], below=False, above=False) == [1.0, 2.0, 4.0]


def test_the_optimism_of_the_best_does_not_reach_the_seeds_of_the_study():
    """Without any effect, on fresh seeds a difference of two tuned rows is significant in at most 5 % of studies."""
    rng = np.random.default_rng(2)
    tuned, fresh = 0, 0
    for _ in range(1500):
        means, study = [], []
        for _row in range(2):
            trials = rng.normal(0, 1, (5, 2)).mean(axis=1)
            means.append(trials.min())
            study.append(rng.normal(0, 1, 5))
        tuned += np.mean(means) < -0.5
        fresh += stats.ttest_rel(*study).pvalue < 0.05
    assert tuned > 1000
    assert fresh / 1500 < 0.05 + 2 * math.sqrt(0.05 * 0.95 / 1500)


def test_a_shorter_budget_prefers_a_higher_rate():
    """Of SGD on a noisy quadratic, whose optimum falls with the number of steps."""

    def expected(rate: float, steps: int) -> float:
        contraction = (1 - rate) ** 2
        noise = rate**2 * 0.1 * (1 - contraction**steps) / (1 - contraction)
        return contraction**steps + noise

    rates = [0.005 * 2**k for k in range(8)]
    half, whole = (best_of({rate: expected(rate, steps) for rate in rates}) for steps in (50, 400))
    assert half.value > whole.value


def candidates(*losses: float, expected: int = 1) -> list[Candidate]:
    """Learning rates 1, 2, 3, ..., each with the losses of its trainings."""
    cells = [f"c{place}" for place in range(expected)]
    return [
        Candidate(learning_rate=rate, cells=cells, validation_losses=[loss] if loss else [])
        for rate, loss in enumerate(losses, start=1)
    ]


@pytest.mark.parametrize(
    ("check", "has_moved"),
    [
        ((3.0, 1.0, 2.0), False),
        ((1.0, 2.0, 3.0), True),
        ((1.0, 2.0, 0.0), None),  # the last one has not ended
        ((), None),
    ],
)
def test_an_optimum_moves_where_another_candidate_is_best_at_the_row_s_own_length(check, has_moved):
    found = Tuning(candidates=candidates(3.0, 1.0, 2.0), seeds=[0], share=0.5, check=candidates(*check))
    assert found.has_moved is has_moved
