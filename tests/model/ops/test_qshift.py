"""Q-shift on the whole grid and among kept tokens, against loops over cells."""

from __future__ import annotations

import pytest
import torch

from tread_bench.model.ops.qshift import neighbours, q_shift, q_shift_kept
from tread_bench.model.ops.selecting import select

CHOICES = ("neighbours", "self", "grid")
DIRECTIONS = ((0, -1), (0, 1), (-1, 0), (1, 0))  # row and column steps to the left, right, upper and lower neighbour
GRIDS = [(1, 1), (1, 5), (4, 4), (5, 3)]


def tokens(batch, count, width=8, seed=0):
    return torch.randn(batch, count, width, generator=torch.Generator().manual_seed(seed))


def drawn(selector, grid, kept, batch=6):
    scores = torch.rand(batch, grid[0] * grid[1], generator=torch.Generator().manual_seed(1))
    return select(selector, scores, grid, kept)


def by_loops(x, ids, grid, choice):
    """Kept token by kept token, quarter by quarter of the channels."""
    out = torch.zeros_like(x)
    for sample, cells in enumerate(ids.tolist()):
        slot = {divmod(cell, grid[1]): number for number, cell in enumerate(cells)}
        for cell, number in slot.items():
            for part, (down, across) in enumerate(DIRECTIONS):
                row, column = cell[0] + down, cell[1] + across
                while (
                    choice == "grid"
                    and (row, column) not in slot
                    and row in range(grid[0])
                    and column in range(grid[1])
                ):
                    row, column = row + down, column + across
                on_grid = row in range(grid[0]) and column in range(grid[1])
                source = slot.get((row, column), number if choice == "self" and on_grid else None)
                if source is not None:
                    out[sample, number, 2 * part : 2 * part + 2] = x[sample, source, 2 * part : 2 * part + 2]
    return out


@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize("choice", CHOICES)
def test_with_all_tokens_every_choice_is_the_dense_shift_bit_for_bit(choice, grid):
    count = grid[0] * grid[1]
    x, ids = tokens(2, count), torch.arange(count).expand(2, -1)
    assert torch.equal(q_shift_kept(x, neighbours(ids, grid, choice)), q_shift(x, grid))
    assert torch.equal(q_shift(x, grid), by_loops(x, ids, grid, "neighbours"))


@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("selector", ["random", "rows", "blocks", "strided"])
def test_kept_tokens_equal_a_loop_over_cells(selector, choice, grid):
    ids = drawn(selector, grid, kept=(grid[0] * grid[1] + 1) // 2)
    x = tokens(*ids.shape)
    assert torch.equal(q_shift_kept(x, neighbours(ids, grid, choice)), by_loops(x, ids, grid, choice))
