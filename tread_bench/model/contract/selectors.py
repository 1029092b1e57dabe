"""The contract of selectors, as checks for their authors to run.

from tread_bench.contract import check_selector

def test_the_contract_holds():
    assert check_selector(SELECTOR) == []
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from tread_bench.core.describe.plugins import by_name
from tread_bench.core.describe.routes import Route
from tread_bench.core.describe.selectors import Grid, SelectorFamily, find_selector
from tread_bench.core.describe.violations import Violation, run_checks
from tread_bench.model.ops.selecting import select_by

BATCH = 32
GRIDS: tuple[Grid, ...] = ((4, 4), (5, 5), (6, 4), (4, 6), (1, 24), (8, 8))
RATES = (0.0, 0.1, 0.25, 0.5, 0.6, 0.75, 0.875, 0.95)


class SelectorSubject:
    """A selector on several grids of tokens."""

    def __init__(self, family: SelectorFamily) -> None:
        self.family = family

    def scores(self, grid: Grid) -> Tensor:
        """Return uniform numbers (B, N), always the same."""
        return torch.rand(BATCH, grid[0] * grid[1], generator=torch.Generator().manual_seed(0))

    def ids(self, grid: Grid, kept: int, scores_BN: Tensor | None = None) -> Tensor:
        """Return the ids (B, K) of the kept tokens."""
        return select_by(self.family, self.scores(grid) if scores_BN is None else scores_BN, grid, kept)


def check_ids(subject: SelectorSubject) -> Iterator[str]:
    """There are as many ids as the rate says; they are distinct, in range and ascending, as every token order needs."""
    for grid in GRIDS:
        tokens = grid[0] * grid[1]
        for rate in RATES:
            kept = Route(0, 0, rate).kept(tokens)
            ids = subject.ids(grid, kept)
            if ids.shape != (BATCH, kept) or (ids.diff(dim=1) <= 0).any() or ids.min() < 0 or ids.max() >= tokens:
                yield f"on a grid of {grid[0]} x {grid[1]} at rate {rate:g}: expected {kept} ids in ascending order"
                return


def check_batch(subject: SelectorSubject) -> Iterator[str]:
    """The choice for a sample depends only on its own scores."""
    for grid in GRIDS:
        scores, kept = subject.scores(grid), grid[0] * grid[1] // 2
        whole = subject.ids(grid, kept)
        if not torch.equal(torch.cat([subject.ids(grid, kept, part) for part in scores.split(3)]), whole):
            yield f"on a grid of {grid[0]} x {grid[1]} the batch in parts keeps other tokens: rank each sample alone"
            return
        if not torch.equal(subject.ids(grid, kept), whole):
            yield "the same scores twice keep other tokens: rank by the scores, without a generator or a state"
            return


def check_grid(subject: SelectorSubject) -> Iterator[str]:
    """Tokens are ranked by their place on the grid exactly if `needs_grid` says so."""
    shapes = [(4, 6), (6, 4), (1, 24), (24, 1)]
    first, *others = (torch.cat([subject.ids(shape, kept) for kept in (6, 12, 18)], dim=1) for shape in shapes)
    by_place = not all(torch.equal(first, other) for other in others)
    if by_place != subject.family.needs_grid:
        effect = "changes" if by_place else "does not change"
        yield f"needs_grid is {subject.family.needs_grid}, and another shape of the grid {effect} what is kept"


def check_keeps_grid(subject: SelectorSubject) -> Iterator[str]:
    """If `keeps_grid` says so, the kept tokens are all crossings of some rows and some columns."""
    for grid in GRIDS:
        tokens = grid[0] * grid[1]
        for kept in range(1, tokens):
            if not subject.family.keeps_grid(kept, grid):
                continue
            ids = subject.ids(grid, kept)
            places = torch.zeros(BATCH, tokens, dtype=torch.bool).scatter(1, ids, True).unflatten(1, grid)
            if (places.any(2).sum(1) * places.any(1).sum(1) != kept).any():
                yield f"keeps_grid says that {kept} tokens of a grid of {grid[0]} x {grid[1]} form one, and they do not"
                return


def check_meta(subject: SelectorSubject) -> Iterator[str]:
    """It ranks on the device of its scores, including the meta device, where costs are counted."""
    ids = subject.ids((4, 4), 8, subject.scores((4, 4)).to("meta"))
    if not ids.is_meta:
        yield f"expected ids on the meta device for scores there; saw them on {ids.device}"


SELECTOR_CHECKS: tuple[Callable[[SelectorSubject], Iterator[str]], ...] = (
    check_ids,
    check_batch,
    check_grid,
    check_keeps_grid,
    check_meta,
)


def check_selector(family: SelectorFamily | str) -> list[Violation]:
    """Return the violations of the contract by a selector, in the order of `SELECTOR_CHECKS`; empty if there are none.

    Args:
        family: what is announced in the group `tread_bench.selectors`; or its name, where it is installed.
    """
    family = by_name(family, find_selector)
    with torch.random.fork_rng(devices=[]):
        subject = SelectorSubject(family)
        return run_checks(SELECTOR_CHECKS, subject)
