"""Selectors: which tokens are kept, as pure functions of uniform numbers.

A selector turns uniform scores (B, N) into an order of the tokens in which the first K are kept, so that a selector
is told by which tokens it ranks together. `registry.SELECTORS` names the token orders each one serves.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from tread_bench.ops.routing import lowest

Ranking = Callable[[Tensor, tuple[int, int]], Tensor]


def rank_random(scores_BN: Tensor, grid: tuple[int, int]) -> Tensor:
    """Every token by its own number: TREAD's choice."""
    return scores_BN


RANKINGS: dict[str, Ranking] = {"random": rank_random}


def select(selector: str, scores_BN: Tensor, grid: tuple[int, int], kept: int) -> Tensor:
    """Ids (B, K) of the kept tokens, ascending, from uniform scores (B, N)."""
    return lowest(RANKINGS[selector](scores_BN, grid), kept)
