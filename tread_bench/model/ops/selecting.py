"""Selectors: which tokens are kept, as pure functions of uniform numbers.

A selector turns uniform scores (B, N) into an order of the tokens of each sample; the first K in that order are kept
and returned with ascending ids.

All except `random` and `stratified` are fixed patterns. They and the windows of `stratified` lie on a grid whose edges
are joined, shifted by a row offset and a column offset that are drawn per sample. So every token is kept equally often,
at any rate.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from tread_bench.core.describe.plugins import named
from tread_bench.core.describe.selectors import Grid, SelectorFamily, selectors
from tread_bench.model.ops.routing import lowest

Ranking = Callable[[Tensor, Grid], Tensor]
WINDOW = 2  # side length of the windows of `blocks` and `stratified`


def rank_random(scores_BN: Tensor, grid: Grid) -> Tensor:
    """Rank every token by its own number, as TREAD does."""
    return scores_BN


def rank_rows(scores_BN: Tensor, grid: Grid) -> Tensor:
    """Rank whole rows, in an order drawn per sample; of the last row, as many neighbours as still needed are kept."""
    rows, columns = _moved(scores_BN, grid)
    return _order(scores_BN, grid[0]).gather(1, rows) * grid[1] + columns


def rank_columns(scores_BN: Tensor, grid: Grid) -> Tensor:
    """Rank whole columns, in an order drawn per sample; of the last, as many neighbours as still needed are kept."""
    rows, columns = _moved(scores_BN, grid)
    return _order(scores_BN, grid[1]).gather(1, columns) * grid[0] + rows


def rank_blocks(scores_BN: Tensor, grid: Grid) -> Tensor:
    """Rank whole 2 x 2 windows, in an order drawn per sample; of the last, as many tokens as still needed, by row.

    If a side of the grid is odd, one row or column of windows is one token wide.
    """
    rows, columns = _moved(scores_BN, grid)
    window, sizes = _windows(rows, columns, grid)
    inside = rows % WINDOW * WINDOW + columns % WINDOW
    return _order(scores_BN, len(sizes)).gather(1, window) * WINDOW**2 + inside


def rank_stratified(scores_BN: Tensor, grid: Grid) -> Tensor:
    """Rank one token of each 2 x 2 window first, drawn at random, then a second one of each, and so on (SPRINT).

    If a side of the grid is odd, one row or column of windows is one token wide.
    """
    window, sizes = _windows(*_moved(scores_BN, grid), grid)

    # Number each window's tokens in random order. The last score, which has drawn the offset, leaves its fraction.
    fraction = scores_BN[:, -1:] * scores_BN.shape[1] % 1
    scores = torch.cat([scores_BN[:, :-1], fraction], dim=1).double()
    place = (window + scores).argsort(dim=1).argsort(dim=1)
    inside = place - (sizes.cumsum(0) - sizes)[window]
    return inside + scores


def rank_strided(scores_BN: Tensor, grid: Grid) -> Tensor:
    """Rank the tokens of a coarse lattice first, then those that halve its stride, column before row, down to all.

    So rate 1/2 keeps every second column, 3/4 every second token both ways, 7/8 every fourth column of every second
    row. Between such rates the next lattice is filled in the same, evenly spread, order (that of Adam7 in PNG).
    """
    rows, columns = _moved(scores_BN, grid)
    bits = max(grid).bit_length()
    rank = torch.zeros_like(rows)
    for bit in range(bits):  # the lowest bit of a coordinate halves the grid, so it has the largest weight
        rank = rank * 4 + (columns >> bit & 1) * 2 + (rows >> bit & 1)
    return rank


def select(selector: SelectorFamily | str, scores_BN: Tensor, grid: Grid, kept: int) -> Tensor:
    """Return the ids (B, K) of the kept tokens, ascending, from uniform scores (B, N).

    Args:
        selector: its description, or its name.

    Raises:
        ValueError: the selector is unknown, or it does not rank every token.
    """
    selector = selectors.find(selector) if isinstance(selector, str) else selector
    ranking: Ranking = named(selector.ranking)
    ranks_BN = ranking(scores_BN, grid)
    if ranks_BN.shape != scores_BN.shape:
        shapes = f"{tuple(ranks_BN.shape)} for scores {tuple(scores_BN.shape)}"
        raise ValueError(f"selector {selector.name} returned ranks {shapes}: a ranking has a rank for every token")
    return lowest(ranks_BN, kept)


def _order(scores_BN: Tensor, count: int) -> Tensor:
    """Place (B, count) of each of `count` things in an order drawn from the first scores."""
    return scores_BN[:, :count].argsort(dim=1, stable=True).argsort(dim=1)


def _windows(rows_BN: Tensor, columns_BN: Tensor, grid: Grid) -> tuple[Tensor, Tensor]:
    """The window (B, N) of each token, and how many tokens each window has."""
    down, across = ((side - torch.arange(0, side, WINDOW, device=rows_BN.device)).clamp(max=WINDOW) for side in grid)
    return rows_BN // WINDOW * len(across) + columns_BN // WINDOW, torch.outer(down, across).flatten()


def _moved(scores_BN: Tensor, grid: Grid) -> tuple[Tensor, Tensor]:
    """Row and column (B, N) of each token after shifting it by offsets drawn from the last score; edges are joined."""
    rows, columns = grid
    offset = (scores_BN[:, -1:] * (rows * columns)).long()
    token = torch.arange(rows * columns, device=scores_BN.device)
    return (token // columns - offset // columns) % rows, (token - offset) % columns
