"""What must hold of every selector: save this beside your own, and put its description in place of SELECTOR."""

import torch
from checkerboard.family import CHECKERBOARD as SELECTOR

from tread_bench.model.ops.selecting import select_by

GRIDS = (4, 4), (5, 5), (6, 4), (4, 6), (1, 24), (8, 8)


def scores(grid):
    """Uniform numbers for 32 samples, always the same."""
    return torch.rand(32, grid[0] * grid[1], generator=torch.Generator().manual_seed(0))


def ids(grid, kept):
    return select_by(SELECTOR, scores(grid), grid, kept)


def test_ids():
    """As many ids are kept as asked for, in ascending order, without repetition."""
    for grid in GRIDS:
        tokens = grid[0] * grid[1]
        for kept in (1, tokens // 4, tokens // 2, tokens - 1, tokens):
            found = ids(grid, kept)
            assert found.shape == (32, kept) and (found.diff(dim=1) > 0).all()
            assert found.min() >= 0 and found.max() < tokens


def test_batch():
    """The choice depends on the scores of its own sample, and on nothing else."""
    for grid in GRIDS:
        kept = grid[0] * grid[1] // 2
        parts = [select_by(SELECTOR, part, grid, kept) for part in scores(grid).split(3)]
        assert torch.equal(torch.cat(parts), ids(grid, kept))
        assert torch.equal(ids(grid, kept), ids(grid, kept))


def test_grid():
    """It ranks by place exactly if `needs_grid` says so."""
    shapes = (4, 6), (6, 4), (1, 24), (24, 1)
    first, *others = [torch.cat([ids(shape, kept) for kept in (6, 12, 18)], dim=1) for shape in shapes]
    assert SELECTOR.needs_grid != all(torch.equal(first, other) for other in others)


def test_keeps_grid():
    """Where `keeps_grid` says so, the kept tokens are all crossings of some rows and some columns."""
    for grid in GRIDS:
        tokens = grid[0] * grid[1]
        for kept in range(1, tokens):
            places = torch.zeros(32, tokens, dtype=torch.bool).scatter(1, ids(grid, kept), True).unflatten(1, grid)
            crossings = places.any(2).sum(1) * places.any(1).sum(1)
            assert (crossings == kept).all() or not SELECTOR.keeps_grid(kept, grid)


def test_meta():
    """It works on the meta device, where costs are counted."""
    assert select_by(SELECTOR, scores((4, 4)).to("meta"), (4, 4), 8).is_meta
