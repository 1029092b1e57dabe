"""Laws of draws: a function of (seed, stream, sample), well distributed, streams independent."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tread_bench.core.numbers import draws

DRAWS = {
    "uniform": lambda first, count: draws.uniform(3, "noise", first, count, (2, 5)),
    "normal": lambda first, count: draws.normal(3, "noise", first, count, (3, 3)),
    "normal in float32": lambda first, count: draws.normal(3, "noise", first, count, (3, 3), np.float32),
    "integers": lambda first, count: draws.integers(3, "noise", first, count, 10),
    "permuted": lambda first, count: draws.permuted(3, "data", first, count, 7),
    "words": lambda first, count: draws.words(3, "noise", first, count, 9),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_rows_do_not_depend_on_the_split_into_batches(draw):
    whole = draw(5, 40)
    split = np.concatenate([draw(5, 13), draw(18, 1), draw(19, 26)])
    np.testing.assert_array_equal(whole, split)


def test_seed_stream_and_row_each_change_the_draw():
    first = draws.normal(0, "noise", 0, 1, (16,))
    for seed, stream, row in ((1, "noise", 0), (0, "times", 0), (0, "noise", 1)):
        assert not np.isin(first, draws.normal(seed, stream, row, 1, (16,))).any()


def test_a_draw_never_changes():
    """Recorded when the streams were defined: another value breaks every stored result."""
    assert draws.words(0, "noise", 2, 1, 3).tolist() == [[593377718, 3942999115, 3663314871]]


@pytest.mark.parametrize("arithmetic", [np.float64, np.float32])
def test_normal_numbers_are_standard_normal(arithmetic):
    numbers = draws.normal(7, "noise", 0, 4000, (5,), arithmetic).ravel().astype(np.float64)
    assert stats.kstest(numbers, "norm").pvalue > 1e-3


def test_normal_numbers_drawn_in_float32_are_those_of_float64_rounded():
    """Near the mean, a radius is as coarse as float32 is near 1."""
    exact = draws.normal(7, "noise", 0, 300, (4, 32, 32))
    rounded = draws.normal(7, "noise", 0, 300, (4, 32, 32), np.float32)
    assert rounded.dtype == np.float32
    np.testing.assert_allclose(rounded, exact, rtol=0, atol=1e-4)
    assert np.sqrt(np.mean((rounded - exact) ** 2)) < 1e-6


def test_uniform_numbers_are_uniform_and_below_one_and_integers_equally_frequent():
    numbers = draws.uniform(7, "times", 0, 20_000)
    assert numbers.dtype == np.float32
    assert numbers.min() >= 0
    assert numbers.max() < 1
    assert stats.kstest(numbers, "uniform").pvalue > 1e-3
    assert stats.chisquare(np.bincount(draws.integers(7, "labels", 0, 20_000, 10), minlength=10)).pvalue > 1e-3


def test_every_epoch_covers_all_items_in_an_order_of_its_own():
    epochs = draws.permuted(7, "data", 0, 5 * 100, 100).reshape(5, 100)
    assert (np.sort(epochs) == np.arange(100)).all()
    assert len({tuple(epoch) for epoch in epochs.tolist()}) == 5
