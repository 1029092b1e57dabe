"""Q-shift of Vision-RWKV (Duan et al., arXiv 2403.02308): each token sees the next cell in each direction.

A quarter of the channels each comes from the left, right, upper and lower neighbour, with zeros outside the grid.
Shapes: B batch, N tokens of the whole grid, K of them kept, D channels, a multiple of 4.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from tread_bench.model.ops.routing import gather_tokens

ABSENT = -1  # instead of a neighbour's index


def q_shift(x_BND: Tensor, grid: tuple[int, int], outside: float = 0.0) -> Tensor:
    """Shift all tokens of the grid, row by row: (B, N, D) from the left, right, upper and lower neighbours."""
    left, right, upper, lower = x_BND.unflatten(1, grid).chunk(4, dim=-1)
    shifted = (
        F.pad(left[:, :, :-1], (0, 0, 1, 0), value=outside),
        F.pad(right[:, :, 1:], (0, 0, 0, 1), value=outside),
        F.pad(upper[:, :-1], (0, 0, 0, 0, 1, 0), value=outside),
        F.pad(lower[:, 1:], (0, 0, 0, 0, 0, 1), value=outside),
    )
    return torch.cat(shifted, dim=-1).flatten(1, 2)


def neighbours(ids_BK: Tensor, grid: tuple[int, int]) -> Tensor:
    """Find the kept tokens next to each kept token: (B, K, 4), indices into the kept tokens, else ABSENT.

    Args:
        ids_BK: kept tokens, ascending.
    """
    batch, kept = ids_BK.shape
    own = torch.arange(kept, device=ids_BK.device).expand_as(ids_BK)
    slots = ids_BK.new_full((batch, grid[0] * grid[1]), ABSENT).scatter(1, ids_BK, own)
    return gather_tokens(q_shift(slots.unsqueeze(-1).expand(-1, -1, 4), grid, ABSENT), ids_BK)


def q_shift_kept(x_BKD: Tensor, neighbours_BK4: Tensor) -> Tensor:
    """Shift the kept tokens, with zeros for missing neighbours; if all are kept, equal to `q_shift` bit for bit."""
    shifted = []
    for quarter, index_BK in zip(x_BKD.chunk(4, dim=-1), neighbours_BK4.unbind(-1), strict=True):
        found = gather_tokens(quarter, index_BK.clamp(min=0))
        shifted.append(torch.where((index_BK >= 0).unsqueeze(-1), found, 0.0))
    return torch.cat(shifted, dim=-1)
