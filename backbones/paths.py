"""Orders in which blocks see tokens: paths over the whole grid, restricted to the tokens present.

Shapes: B batch, N tokens of the whole grid, K of them present, P paths.
"""

from __future__ import annotations

from torch import Tensor

from tread_bench.model.backbone import TokenState

Order = tuple[Tensor, Tensor]  # (B, K) each: the tokens present along a path, and back


def order_along(ranks_PN: Tensor, path: int, state: TokenState) -> Order:
    """Return the order of the tokens present along a path, cached while these stay the same.

    Args:
        ranks_PN: rank of each token on each path. The path among some tokens is the whole one without the others.
    """
    key = f"path {path}"
    if key not in state.cache:
        along_path = _ranks(ranks_PN, path, state).argsort(dim=1)
        state.cache[key] = along_path, along_path.argsort(dim=1)
    return state.cache[key]


def steps_along(ranks_PN: Tensor, path: int, state: TokenState) -> Tensor:
    """Return 1 + the number of tokens skipped before each token (B, K) along a path, in that order; cached."""
    key = f"steps {path}"
    if key not in state.cache:
        ranks_BK = _ranks(ranks_PN, path, state).sort(dim=1).values
        state.cache[key] = ranks_BK.diff(dim=1, prepend=ranks_BK.new_full((len(ranks_BK), 1), -1))
    return state.cache[key]


def _ranks(ranks_PN: Tensor, path: int, state: TokenState) -> Tensor:
    ranks_BN = ranks_PN[path].expand(state.batch, -1)
    return ranks_BN if state.ids is None else ranks_BN.gather(1, state.ids)
