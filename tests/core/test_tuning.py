"""The choice of a learning rate: edges, divergence, and an optimum that moves."""

from __future__ import annotations

import math

import pytest

from tread_bench.core.numbers.statistics import best_of, extended
from tread_bench.core.stored.records import Candidate, Tuning


def test_what_diverged_brackets_and_what_is_unknown_does_not():
    assert best_of({1.0: 2.0, 2.0: 1.0, 4.0: math.inf}) == (2.0, True)
    assert best_of({1.0: 2.0, 2.0: 1.0, 4.0: None}) == (2.0, False)
    assert best_of({1.0: None, 2.0: math.inf}) is None
    assert best_of({2.0: 1.0, 1.0: 1.0}).value == 1.0
    assert best_of({1.0: 1.0, 2.0: 2.0}) == (1.0, False) and best_of({1.0: 2.0, 2.0: 1.0}) == (2.0, False)


def test_a_range_is_extended_at_its_own_ratio():
    assert extended([1.0, 2.0, 4.0], below=True, above=True) == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0]
    assert extended([1.0, 2.0, 4.0], below=False, above=False) == [1.0, 2.0, 4.0]


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
