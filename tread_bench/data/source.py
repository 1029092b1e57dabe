"""What a data source is, and the one rule between the model's range and stored pixels.

Pixels are kept as uint8, and the model sees `from_uint8` of them: training, validation and the reference of the metrics
share one set of values, whatever a source's own format was.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

if TYPE_CHECKING:
    from tread_bench.config import DataChoice


def to_uint8(images: Tensor) -> Tensor:
    """Images in [-1, 1] as pixels: round((x + 1) * 127.5), halves to even, values outside clamped to 0 .. 255.

    Raises:
        FloatingPointError: a value is NaN or infinite; it would otherwise become some pixel without a trace.
    """
    if not torch.isfinite(images).all():
        raise FloatingPointError("images hold NaN or infinite values and have no pixels: the model diverged")
    return ((images.float() + 1) * 127.5).round().clamp(0, 255).to(torch.uint8)


def from_uint8(pixels: Tensor) -> Tensor:
    """Pixels as float32 images in [-1, 1]: x / 127.5 - 1; `to_uint8` of the result is the pixels again."""
    return pixels.float() / 127.5 - 1


def flip(images: Tensor, mask: Tensor) -> Tensor:
    """Images (B, C, H, W), those of the boolean mask (B,) mirrored left to right."""
    return torch.where(mask[:, None, None, None], images.flip(-1), images)


@dataclass(frozen=True)
class ImageSet:
    """Images of one split, in memory.

    Args:
        pixels: (N, C, H, W) uint8.
        classes: (N,) int64 in 0 .. num_classes - 1; all 0 where num_classes is 0 (y == num_classes is no label).
    """

    pixels: NDArray[np.uint8]
    classes: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.pixels)

    def images(self, index: NDArray[np.int64]) -> Tensor:
        """(B, C, H, W) float32 in [-1, 1]."""
        return from_uint8(self.uint8(index))

    def uint8(self, index: NDArray[np.int64]) -> Tensor:
        """(B, C, H, W) uint8, as the feature networks take them."""
        return torch.from_numpy(self.pixels[index])

    def labels(self, index: NDArray[np.int64]) -> Tensor:
        """(B,) int64."""
        return torch.from_numpy(self.classes[index])

    @cached_property
    def sha256(self) -> str:
        """Of shape, pixels and labels in their order."""
        digest = hashlib.sha256(repr(self.pixels.shape).encode())
        digest.update(np.ascontiguousarray(self.pixels).data)
        digest.update(self.classes.astype("<i8").tobytes())
        return digest.hexdigest()


@dataclass(frozen=True)
class DataSource:
    """Images to train on and others held out; `num_classes` 0 means without labels."""

    train: ImageSet
    held_out: ImageSet
    num_classes: int

    @property
    def image_size(self) -> int:
        return self.train.pixels.shape[-1]

    @property
    def channels(self) -> int:
        return self.train.pixels.shape[1]

    @cached_property
    def sha256(self) -> str:
        """Of both splits' content."""
        return hashlib.sha256(f"{self.train.sha256} {self.held_out.sha256}".encode()).hexdigest()


def open_data(choice: DataChoice) -> DataSource:
    """Read a data source into memory. Raises UserError with file, row and rule where the data do not fit."""
    if choice.name == "digits":
        from tread_bench.data.digits import read_digits

        return read_digits()
    if choice.name == "random_latents":
        from tread_bench.data.random_latents import draw_latents

        return draw_latents(choice)
    from tread_bench.data.parquet import read_parquet

    return read_parquet(choice)
