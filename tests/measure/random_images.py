"""Random images, and how far features of them are apart."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def random_images(count: int, seed: int = 0, side: int = 40) -> Tensor:
    """Smooth random images with some noise, uint8 (count, 3, side, side)."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand(count, 3, 5, 5, generator=generator) * 255
    smooth = F.interpolate(coarse, (side, side), mode="bilinear")
    return (smooth + 20 * torch.randn(smooth.shape, generator=generator)).clamp(0, 255).round().to(torch.uint8)


def difference(found: Tensor | None, expected: Tensor | None) -> float:
    """Largest over the images, relative to the length of what is expected."""
    assert found is not None and expected is not None
    return float(((found - expected).norm(dim=1) / expected.norm(dim=1)).max())
