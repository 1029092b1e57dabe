"""Images as PNG."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import torch
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from torch import Tensor

from tread_bench.core.stored.foreign import open_file

COLUMNS = 10
GRID = "grid.png"  # name of the overview beside single images
_MADE_HERE = ("Software", "tread-bench")  # in each file, by which the overview is known
_HEAD_BYTES = 1024  # of a file, among which it says so


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
    about = PngInfo()
    about.add_text(*_MADE_HERE)
    Image.fromarray(array).save(buffer, "PNG", pnginfo=about)
    return buffer.getvalue()


def is_grid(path: Path) -> bool:
    """Return whether a file is an overview that `grid_png` made, whatever the folder. Raises OSError."""
    if path.name != GRID:
        return False
    with open_file(path) as file:
        return "\0".join(_MADE_HERE).encode() in file.read(_HEAD_BYTES)
