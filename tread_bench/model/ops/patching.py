"""Patches to images, and fixed embeddings of positions and times: pure functions of tensors."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def unpatchify(tokens_BND: Tensor, grid: tuple[int, int], patch: int) -> Tensor:
    """Convert (B, rows * columns, patch^2 C), channels last in a patch, to (B, C, rows * patch, columns * patch)."""
    rows, columns = grid
    batch, _, width = tokens_BND.shape
    channels = width // (patch * patch)
    x = tokens_BND.reshape(batch, rows, columns, patch, patch, channels)
    return x.permute(0, 5, 1, 3, 2, 4).reshape(batch, channels, rows * patch, columns * patch)


def sincos_positions(width: int, grid: tuple[int, int]) -> Tensor:
    """Return fixed 2-D positions (rows * columns, width): first half by column, second by row (MAE, DiT)."""
    rows, columns = torch.meshgrid(torch.arange(grid[0]), torch.arange(grid[1]), indexing="ij")
    frequencies = 10000 ** -(torch.arange(width // 4, dtype=torch.float64) / (width / 4))
    halves = []
    for place in (columns, rows):
        angle = place.reshape(-1, 1) * frequencies
        halves += [angle.sin(), angle.cos()]
    return torch.cat(halves, dim=1).float()


def sinusoids(t_B: Tensor, width: int, max_period: float = 10000.0) -> Tensor:
    """Embed a time in (B, width): [cos, sin] of t times geometric frequencies from 1 down to 1 / max_period."""
    half = width // 2
    frequencies = torch.exp(-math.log(max_period) * torch.arange(half, dtype=torch.float32, device=t_B.device) / half)
    angle = t_B.float()[:, None] * frequencies
    return torch.cat([angle.cos(), angle.sin()], dim=1)
