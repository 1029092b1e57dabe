"""Mask tokens, which replace tokens that left and do not return with their value."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from tread_bench.model.backbone import TokenState, come_back


class MaskToken(nn.Module):
    """One learned token, drawn from N(0, 0.02^2)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.empty(width))

    def reset_parameters(self) -> None:
        nn.init.normal_(self.value, std=0.02)

    def like(self, stream: Tensor, count: int | None = None) -> Tensor:
        """Repeat the mask token `count` times for every sample of `stream` (B, T, D), by default T times."""
        return self.value.to(stream.dtype).expand(len(stream), count or stream.shape[1], -1)

    def fill(self, state: TokenState) -> TokenState:
        """Restore all tokens; those that left become the mask token."""
        assert state.background is not None, "no route is under way"
        whole = replace(state, streams=state.background)
        masked = whole.with_stream(self.like(whole.stream()))
        return come_back(replace(state, background=masked.streams))


def kept_pixels(kept_BK: Tensor, grid: tuple[int, int], patch: int) -> Tensor:
    """Return 1 for pixels of kept tokens, else 0: (B, 1, H, W)."""
    rows, columns = grid
    kept_BN = torch.zeros(len(kept_BK), rows * columns, device=kept_BK.device).scatter(1, kept_BK, 1.0)
    return kept_BN.view(-1, 1, rows, columns).repeat_interleave(patch, 2).repeat_interleave(patch, 3)
