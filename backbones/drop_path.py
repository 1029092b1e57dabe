"""Drop path (Huang et al., ECCV 2016) with a rate that is not a constant in the code that torch.compile generates."""

from __future__ import annotations

import timm.layers
import torch
from torch import Tensor


class DropPath(timm.layers.DropPath):
    """In training, sets whole samples (B, ...) to zero at `rate` and scales up the others to keep the mean.

    The rate is in a tensor, and the draw is uniform, which compiled code computes like eager code. So blocks that
    differ only in their rate share one compilation.
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
