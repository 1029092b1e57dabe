"""Drop path (Huang et al., ECCV 2016) whose draws are given, so that they belong to samples and not to a step."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class DropPath(nn.Module):
    """Sets whole samples to zero at `rate` and scales up the others to keep the mean.

    The rate is in a tensor, so that blocks that differ only in their rate share one compilation.
    """

    keep: Tensor

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.drops = rate > 0
        self.register_buffer("keep", torch.tensor(1 - rate), persistent=False)

    def forward(self, x: Tensor, drawn_B: Tensor | None) -> Tensor:
        """Return x (B, ...) without the samples whose draw, uniform in [0, 1), is not below 1 - rate; None: all."""
        if drawn_B is None or not self.drops:
            return x
        kept = (drawn_B < self.keep).view(-1, *(1,) * (x.ndim - 1))
        return x * (kept / self.keep).to(x.dtype)
