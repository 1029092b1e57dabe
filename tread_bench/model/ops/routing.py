"""Taking tokens out of a sequence and putting them back: pure functions of tensors.

Shapes: B batch, N image tokens, K kept tokens, P prefix tokens (in front, never routed), D width.
"""

from __future__ import annotations

import torch
from torch import Tensor


def lowest(scores_BN: Tensor, kept: int) -> Tensor:
    """Return the ids (B, K) of each sample's `kept` lowest scores, ascending.

    Ascending ids keep the order of the sequence, which scans and shifts need; attention does not.
    """
    return scores_BN.argsort(dim=1, stable=True)[:, :kept].sort(dim=1).values


def with_prefix(ids_BK: Tensor, num_prefix: int) -> Tensor:
    """Return positions (B, P + K) in the whole sequence: the prefix, then the kept image tokens."""
    if not num_prefix:
        return ids_BK
    prefix = torch.arange(num_prefix, device=ids_BK.device).expand(len(ids_BK), -1)
    return torch.cat([prefix, ids_BK + num_prefix], dim=1)


def gather_tokens(x_BND: Tensor, positions_BK: Tensor) -> Tensor:
    """Return the tokens (B, K, D) at `positions_BK` of every sample; of rows (B, N, ...), likewise (B, K, ...)."""
    behind = x_BND.shape[2:]
    index = positions_BK.reshape(*positions_BK.shape, *(1 for _ in behind))
    return x_BND.gather(1, index.expand(*positions_BK.shape, *behind))


def scatter_tokens(background_BND: Tensor, x_BKD: Tensor, positions_BK: Tensor) -> Tensor:
    """Return `background_BND` with `x_BKD` written at `positions_BK`; gradients flow through both."""
    index = positions_BK.unsqueeze(-1).expand_as(x_BKD)
    return background_BND.scatter(1, index, x_BKD.to(background_BND.dtype))
