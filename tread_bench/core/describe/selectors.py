"""Lookup of selectors by name, through entry points of the group `tread_bench.selectors`.

A selector ranks the tokens of each sample; a route keeps those of lowest rank. Its `SelectorFamily` states what the
rest of the package needs to know about it; nobody compares its name.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tread_bench.core.describe.plugins import Description, Kind

DEFAULT_SELECTOR = "random"  # as in TREAD
Grid = tuple[int, int]  # rows and columns of tokens


class TokenOrder(StrEnum):
    """What the order of the tokens means to a backbone."""

    SET = "set"  # attention with positions inside the tokens: any order gives the same result
    SEQUENCE = "sequence"  # scans: the order along the sequence matters
    GRID = "grid"  # two-dimensional shifts: neighbours on the grid matter


@dataclass(frozen=True, kw_only=True)
class SelectorFamily(Description):
    """Torch-free description of a selector.

    Kept ids always ascend, which is all that a scan needs; a shift on the grid looks its neighbours up among the kept
    ids. So no choice of tokens is silently wrong.

    Args:
        name: its name in a suite.
        about: one line that `tread-bench list selectors` shows.
        ranking: "module:attribute" of a callable (uniform scores (B, N), grid) -> ranks (B, N). The K tokens of a
            sample that rank lowest are kept.
        token_orders: token orders of the backbones that can be routed with it; all, if not stated.
        needs_grid: it ranks by position, so the tokens must lie on a grid.
    """

    about: str
    ranking: str
    token_orders: frozenset[TokenOrder] = frozenset(TokenOrder)
    needs_grid: bool = True


selectors = Kind("selector", "tread_bench.selectors", SelectorFamily)
