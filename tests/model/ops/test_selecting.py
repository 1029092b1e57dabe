"""Every selector keeps the right number of tokens, each equally often, in the pattern that its name promises."""

from __future__ import annotations

import pytest
import torch

from tread_bench.core.describe.routes import Route
from tread_bench.core.describe.selectors import selectors
from tread_bench.model.ops.selecting import select


def kept_tokens(selector, grid, rate, draws=64, seed=0):
    """Which tokens are kept, (draws, rows, columns) of bool."""
    rows, columns = grid
    scores = torch.rand(draws, rows * columns, generator=torch.Generator().manual_seed(seed))
    ids = select(selector, scores, grid, Route(0, 0, rate).kept(rows * columns))
    return torch.zeros(draws, rows * columns, dtype=torch.bool).scatter(1, ids, True).unflatten(1, grid)


def sides(kept):
    """Rows and columns that hold a kept token: (draws,) each."""
    return kept.any(2).sum(1), kept.any(1).sum(1)


def same_on_joined_edges(kept, pattern):
    """Whether every draw is `pattern` moved by some offset."""
    moved = torch.stack([pattern.roll((i, j), (0, 1)) for i in range(kept.shape[1]) for j in range(kept.shape[2])])
    return bool((kept[:, None] == moved).all((2, 3)).any(1).all())


@pytest.mark.parametrize("selector", selectors())
@pytest.mark.parametrize("grid", [(4, 4), (5, 5), (6, 4)], ids=str)
@pytest.mark.parametrize("rate", [0.25, 0.5, 0.6, 0.9])
def test_every_token_is_kept_equally_often(selector, grid, rate):
    draws = 8000
    share = kept_tokens(selector, grid, rate, draws).float().mean(0)
    expected = Route(0, 0, rate).kept(share.numel()) / share.numel()
    deviation = (expected * (1 - expected) / draws) ** 0.5
    assert (share - expected).abs().max() < 5 * deviation


@pytest.mark.parametrize("grid", [(4, 4), (7, 7), (6, 4)], ids=str)
@pytest.mark.parametrize("rate", [0.3, 0.5, 0.75])
def test_rows_and_columns_are_whole_but_for_one(grid, rate):
    for selector, side in (("rows", 2), ("columns", 1)):
        counts = kept_tokens(selector, grid, rate).sum(side)
        assert (((counts > 0) & (counts < grid[side - 1])).sum(1) <= 1).all()


def test_a_partial_row_is_a_run_of_neighbours():
    partial = torch.tensor([[True, True, False, False], [False] * 4, [False] * 4, [False] * 4])
    assert same_on_joined_edges(kept_tokens("rows", (4, 4), 0.875), partial)
    assert same_on_joined_edges(kept_tokens("columns", (4, 4), 0.875), partial.T)


def test_blocks_keep_whole_windows():
    kept = kept_tokens("blocks", (8, 8), 0.75)
    windows = sum(kept.roll((-i, -j), (1, 2)).float() for i in (0, 1) for j in (0, 1)) / 4
    tilings = torch.stack([windows[:, i::2, j::2] for i in (0, 1) for j in (0, 1)], 1)  # one of the four fits
    assert (((tilings == 0) | (tilings == 1)).all((2, 3)).any(1)).all()
    assert len(sides(kept_tokens("blocks", (8, 8), 15 / 16))[0].unique()) == 1


@pytest.mark.parametrize("kept_of_each", [1, 1.75, 2, 3])
def test_stratified_keeps_as_many_of_every_window_each_drawn_by_itself(kept_of_each):
    """Between whole numbers, one more of some windows."""
    kept = kept_tokens("stratified", (4, 6), 1 - kept_of_each / 4, draws=4000)
    counts = sum(kept.roll((-i, -j), (1, 2)).long() for i in (0, 1) for j in (0, 1))
    tilings = torch.stack([counts[:, i::2, j::2] for i in (0, 1) for j in (0, 1)], 1)  # one of the four fits
    assert ((tilings - kept_of_each).abs() < 1).all((2, 3)).any(1).all()
    assert len(kept.flatten(1).unique(dim=0)) > 3000, "six windows of four or six choices, under four tilings"


@pytest.mark.parametrize(
    ("rate", "down", "across"), [(0.5, 1, 2), (0.75, 2, 2), (0.875, 2, 4), (15 / 16, 4, 4)], ids=str
)
def test_strided_keeps_a_lattice(rate, down, across):
    lattice = torch.zeros(8, 8, dtype=torch.bool)
    lattice[::down, ::across] = True
    kept = kept_tokens("strided", (8, 8), rate, draws=256)
    assert same_on_joined_edges(kept, lattice)
    assert len(kept.flatten(1).unique(dim=0)) == down * across


@pytest.mark.parametrize("selector", selectors())
def test_all_rates_of_one_draw_are_nested(selector):
    fewest, fewer, more, most = (kept_tokens(selector, (8, 8), rate) for rate in (0.75, 0.6, 0.5, 0.25))
    assert (fewest <= fewer).all() and (fewer <= more).all() and (more <= most).all()
