"""Drop path (Huang et al., ECCV 2016) whose rate is no constant of the code that torch.compile makes."""

from __future__ import annotations

import timm.layers
import torch
from torch import Tensor


class DropPath(timm.layers.DropPath):
    """Whole samples (B, ...) become zero at `rate` while training, the others are scaled up to keep the mean.

    The rate is in a tensor, and the draw a uniform one, which compiled code makes as eager code does: so blocks that
    differ in their rate share one compilation.
    """

    keep: Tensor

    def __init__(self, rate: float) -> None:
        super().__init__(rate)
        self.drops = rate > 0
        self.register_buffer("keep", torch.tensor(1 - rate), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if not (self.training and self.drops):
            return x
        kept = torch.rand(len(x), *(1,) * (x.ndim - 1), device=x.device) < self.keep
        return x * (kept / self.keep).to(x.dtype)
