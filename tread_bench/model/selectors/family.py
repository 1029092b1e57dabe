"""The selectors of this package, without torch."""

from __future__ import annotations

from tread_bench.core.describe.selectors import Grid, SelectorFamily


def _are_rows(kept: int, grid: Grid) -> bool:
    return kept % grid[1] == 0


def _are_columns(kept: int, grid: Grid) -> bool:
    return kept % grid[0] == 0


def _are_lattice(kept: int, grid: Grid) -> bool:
    rows, columns = grid
    strides = [(2**bit, 2**power) for bit in range(max(grid).bit_length()) for power in (bit, bit + 1)]  # down, across
    return any(kept == -(-rows // down) * -(-columns // across) for down, across in strides)


RANDOM = SelectorFamily(
    name="random",
    about="Each token independently at random, as in TREAD.",
    ranking="tread_bench.model.ops.selecting:rank_random",
    needs_grid=False,
)
ROWS = SelectorFamily(
    name="rows",
    about="Whole rows, in an order drawn per sample.",
    ranking="tread_bench.model.ops.selecting:rank_rows",
    keeps_grid=_are_rows,
)
COLUMNS = SelectorFamily(
    name="columns",
    about="Whole columns, in an order drawn per sample.",
    ranking="tread_bench.model.ops.selecting:rank_columns",
    keeps_grid=_are_columns,
)
BLOCKS = SelectorFamily(
    name="blocks",
    about="Whole windows of 2 x 2 tokens, in an order drawn per sample.",
    ranking="tread_bench.model.ops.selecting:rank_blocks",
)
STRATIFIED = SelectorFamily(
    name="stratified",
    about="As many tokens of every 2 x 2 window, drawn at random, as in SPRINT.",
    ranking="tread_bench.model.ops.selecting:rank_stratified",
)
STRIDED = SelectorFamily(
    name="strided",
    about="A regular lattice, filled in evenly at lower rates.",
    ranking="tread_bench.model.ops.selecting:rank_strided",
    keeps_grid=_are_lattice,
)
