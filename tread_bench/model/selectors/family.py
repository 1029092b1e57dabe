"""The selectors of this package, without torch."""

from __future__ import annotations

from tread_bench.core.describe.selectors import SelectorFamily

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
)
COLUMNS = SelectorFamily(
    name="columns",
    about="Whole columns, in an order drawn per sample.",
    ranking="tread_bench.model.ops.selecting:rank_columns",
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
)
