"""Q-shift on the whole grid and among kept tokens, against loops over cells."""

from __future__ import annotations

import pytest
import torch

from tread_bench.model.ops.qshift import neighbours, q_shift, q_shift_kept
from tread_bench.model.ops.selecting import select

DIRECTIONS = ((0, -1), (0, 1), (-1, 0), (1, 0))  # row and column steps to the left, right, upper and lower neighbour
GRIDS = [(1, 1), (1, 5), (4, 4), (5, 3)]


def tokens(batch, count, width=8, seed=0):
    return torch.randn(batch, count, width, generator=torch.Generator().manual_seed(seed))


def drawn(selector, grid, kept, batch=6):
    scores = torch.rand(batch, grid[0] * grid[1], generator=torch.Generator().manual_seed(1))
    return select(selector, scores, grid, kept)


def by_loops(x, ids, grid):
    """Kept token by kept token, quarter by quarter of the channels."""
    out = torch.zeros_like(x)
    for sample, cells in enumerate(ids.tolist()):
        slot = {divmod(cell, grid[1]): number for number, cell in enumerate(cells)}
        for (row, column), number in slot.items():
            for part, (down, across) in enumerate(DIRECTIONS):
                source = slot.get((row + down, column + across))
                if source is not None:
                    out[sample, number, 2 * part : 2 * part + 2] = x[sample, source, 2 * part : 2 * part + 2]
    return out


@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize("selector", ["random", "rows", "blocks", "strided"])
def test_kept_tokens_equal_a_loop_over_cells_and_all_tokens_the_dense_shift(selector, grid):
    count = grid[0] * grid[1]
    for kept in ((count + 1) // 2, count):
        ids = drawn(selector, grid, kept)
        x = tokens(*ids.shape)
        assert torch.equal(q_shift_kept(x, neighbours(ids, grid)), by_loops(x, ids, grid))
    assert torch.equal(q_shift(x, grid), by_loops(x, ids, grid))
