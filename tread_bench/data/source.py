"""What a data source is, and the one conversion between the model's range and stored pixels.

Pixels are kept as uint8, and the model sees `from_uint8` of them: training, validation and the reference of the metrics
share one set of values, whatever a source's own format was. Latents are read as they are needed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tread_bench.core.describe.data_sources import DataOptions
from tread_bench.core.describe.plugins import named
from tread_bench.core.errors import UserError


def to_uint8(images: Tensor) -> Tensor:
    """Images in [-1, 1] as pixels: (x + 1) * 127.5, rounded to the nearest, values outside clamped to 0 .. 255.

    Raises:
        FloatingPointError: a value is NaN or infinite; it would otherwise silently become a pixel.
    """
    if not torch.isfinite(images).all():
        raise FloatingPointError("images contain NaN or infinite values: the model diverged")
    return ((images.float() + 1) * 127.5).round().clamp(0, 255).to(torch.uint8)


def from_uint8(pixels: Tensor) -> Tensor:
    """Pixels as float32 images in [-1, 1]: x / 127.5 - 1; `to_uint8` of the result is the pixels again."""
    return pixels.float() / 127.5 - 1


def flip(images: Tensor, mask: Tensor) -> Tensor:
    """Images (B, C, H, W), those selected by the boolean mask (B,) mirrored left to right."""
    return torch.where(mask[:, None, None, None], images.flip(-1), images)


class DataSplit(Protocol):
    """Samples that networks are trained and validated on."""

    def __len__(self) -> int: ...

    @property
    def shape(self) -> tuple[int, ...]:
        """(C, H, W) of one sample."""

    @property
    def sha256(self) -> str:
        """Hash of content and labels in their order."""

    def images(self, index: NDArray[np.int64]) -> Tensor:
        """(B, C, H, W) float32, as the network sees them."""

    def labels(self, index: NDArray[np.int64]) -> Tensor:
        """(B,) int64."""


@runtime_checkable
class DrawnSplit(Protocol):
    """Samples that differ from draw to draw, such as those of a stored posterior."""

    def drawn(self, index: NDArray[np.int64], seed: int, first: int) -> Tensor:
        """(B, C, H, W) float32 of samples `first` ... of the seed's training; a function of these alone."""


@runtime_checkable
class PicturedSplit(Protocol):
    """Samples with an image beside each."""

    def pictures(self, index: NDArray[np.int64], seed: int, first: int) -> Tensor:
        """(B, C, H, W) float32 in [-1, 1], the images that belong to the samples drawn."""


@runtime_checkable
class CaptionedSplit(Protocol):
    """Samples with captions, each of which a text encoder has turned into M tokens of width E."""

    @property
    def empty_text(self) -> Tensor:
        """(M, E) float32, the empty caption: what a sample without its text has instead."""

    def text(self, index: NDArray[np.int64], seed: int, first: int) -> Tensor:
        """(B, M, E) float32, a caption of each, drawn by the seed and the sample `first` ... alone."""

    def captions(self, index: NDArray[np.int64], seed: int, first: int) -> list[str]:
        """The captions that `text` draws, as they are written; "" where only their features are stored."""


def training_samples(split: DataSplit, index: NDArray[np.int64], seed: int, first: int) -> Tensor:
    """(B, C, H, W) float32 of samples `first` ... of the seed's training, which are the split's items `index`."""
    return split.drawn(index, seed, first) if isinstance(split, DrawnSplit) else split.images(index)


class RealImages(Protocol):
    """Real images that generated ones are compared with."""

    def __len__(self) -> int: ...

    @property
    def sha256(self) -> str:
        """Hash of content and order."""

    def batches(self, size: int) -> Iterator[Tensor]:
        """Return all images in their order, (B, C, H, W) uint8, `size` at a time."""


class Pixels:
    """Images of one split, uint8. A subclass has their `shape`, `classes`, `uint8` and `sha256`.

    `classes` are (N,) int64 in 0 .. num_classes - 1; all 0 where num_classes is 0 (y == num_classes is no label).
    """

    classes: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.classes)

    @property
    def shape(self) -> tuple[int, ...]:
        """(C, H, W)."""
        raise NotImplementedError

    @property
    def sha256(self) -> str:
        """Hash of content and labels in their order."""
        raise NotImplementedError

    def uint8(self, index: NDArray[np.int64]) -> Tensor:
        """(B, C, H, W) uint8, as the feature networks take them."""
        raise NotImplementedError

    def images(self, index: NDArray[np.int64]) -> Tensor:
        """(B, C, H, W) float32 in [-1, 1]."""
        return from_uint8(self.uint8(index))

    def batches(self, size: int) -> Iterator[Tensor]:
        """All images in their order, (B, C, H, W) uint8, `size` at a time."""
        for first in range(0, len(self), size):
            yield self.uint8(np.arange(first, min(first + size, len(self))))

    def labels(self, index: NDArray[np.int64]) -> Tensor:
        """(B,) int64."""
        return torch.from_numpy(self.classes[index])


@dataclass(frozen=True)
class ImageSet(Pixels):
    """Images of one split, in memory.

    Args:
        pixels: (N, C, H, W) uint8.
        classes: (N,) int64 in 0 .. num_classes - 1; all 0 where num_classes is 0 (y == num_classes is no label).
    """

    pixels: NDArray[np.uint8]
    classes: NDArray[np.int64]
    is_in_memory: ClassVar = True

    @property
    def shape(self) -> tuple[int, ...]:
        """(C, H, W)."""
        return self.pixels.shape[1:]

    def uint8(self, index: NDArray[np.int64]) -> Tensor:
        """(B, C, H, W) uint8, as the feature networks take them."""
        return torch.from_numpy(self.pixels[index])

    @cached_property
    def sha256(self) -> str:
        """Hash of shape, pixels and labels in their order."""
        digest = hashlib.sha256(repr(self.pixels.shape).encode())
        digest.update(np.ascontiguousarray(self.pixels).data)
        digest.update(self.classes.astype("<i8").tobytes())
        return digest.hexdigest()


@dataclass(frozen=True)
class DataSource:
    """Samples to train on and held-out ones; `num_classes` 0 means without labels.

    `real_images` are what generated images are compared with, or what opens them when they are first needed; None: the
    training images.
    """

    train: DataSplit
    held_out: DataSplit
    num_classes: int
    real_images: RealImages | Callable[[], RealImages] | None = None

    @property
    def is_in_memory(self) -> bool:
        """Whether training samples say that they are copied or drawn in memory: no process prepares batches of them."""
        return getattr(self.train, "is_in_memory", False)

    @property
    def image_size(self) -> int:
        return self.train.shape[-1]

    @property
    def channels(self) -> int:
        return self.train.shape[0]

    @cached_property
    def reference(self) -> RealImages:
        """Raises UserError where the data have no real images."""
        if self.real_images is not None:
            return self.real_images() if callable(self.real_images) else self.real_images
        if isinstance(self.train, Pixels):
            return self.train
        raise UserError("the data have no real images to compare samples with: set metrics.generate: false")

    @cached_property
    def sha256(self) -> str:
        """Hash of both splits' content."""
        return hashlib.sha256(f"{self.train.sha256} {self.held_out.sha256}".encode()).hexdigest()


def open_data(options: DataOptions) -> DataSource:
    """Open the data source that a suite names. Raises UserError with file, row and rule where the data do not fit."""
    source: DataSource = named(options.family.builder)(options)
    return source
