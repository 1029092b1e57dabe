"""Images as PNG."""

from __future__ import annotations

from io import BytesIO

import torch
from PIL import Image
from torch import Tensor

COLUMNS = 10
GRID = "grid.png"  # name of the overview beside single images


def grid_png(pixels: Tensor) -> bytes:
    """Images (B, C, H, W), uint8, ten in a row, with one pixel between them."""
    count, channels, height, width = pixels.shape
    columns = min(COLUMNS, count)
    rows = -(-count // columns)
    grid = torch.full((channels, rows * (height + 1) - 1, columns * (width + 1) - 1), 127, dtype=torch.uint8)
    for k, image in enumerate(pixels):
        top = k // columns * (height + 1)
        left = k % columns * (width + 1)
        grid[:, top : top + height, left : left + width] = image
    return image_png(grid)


def image_png(pixels: Tensor) -> bytes:
    """Return one image (C, H, W), uint8, of one or three channels."""
    array = pixels[0].numpy() if len(pixels) == 1 else pixels.permute(1, 2, 0).contiguous().numpy()
    buffer = BytesIO()
    Image.fromarray(array).save(buffer, "PNG")
    return buffer.getvalue()
