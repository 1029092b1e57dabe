"""Noise in the shape of latents, for studies of speed and memory alone: a step costs the same on any data.

Samples are drawn when they are needed: a data set of any size takes no more memory than its labels.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tread_bench.core.numbers import draws
from tread_bench.data.random_latents.family import RandomLatentsData
from tread_bench.data.source import DataSource, from_uint8


def draw_latents(choice: RandomLatentsData) -> DataSource:
    """`count` samples of uniform values in [-1, 1] with uniform labels, the last fifth held out."""
    shape = (choice.channels, choice.image_size, choice.image_size)
    classes = draws.integers(0, "labels of random latents", 0, choice.count, max(choice.num_classes, 1))
    last = choice.count - choice.count // 5
    held_out = RandomLatents(shape, last, classes[last:])
    return DataSource(RandomLatents(shape, 0, classes[:last]), held_out, choice.num_classes)


def drawn_levels(shape: tuple[int, ...], numbers: NDArray[np.int64]) -> Tensor:
    """(B, *shape) uint8, uniform, each a function of its number alone."""
    size = math.prod(shape)
    levels = np.empty((len(numbers), size), dtype=np.uint8)
    for place, number in enumerate(numbers.tolist()):
        levels[place] = draws.words(0, "random latents", number, 1, size)[0] >> 24
    return torch.from_numpy(levels).view(-1, *shape)


@dataclass(frozen=True)
class RandomLatents:
    """Samples `first` ... of an endless sequence, one for each label."""

    shape: tuple[int, ...]
    first: int
    classes: NDArray[np.int64]
    is_in_memory: ClassVar = True

    def __len__(self) -> int:
        return len(self.classes)

    def images(self, index: NDArray[np.int64]) -> Tensor:
        """(B, C, H, W) float32, one of 256 levels in [-1, 1]."""
        return from_uint8(drawn_levels(self.shape, self.first + index))

    def labels(self, index: NDArray[np.int64]) -> Tensor:
        """(B,) int64."""
        return torch.from_numpy(self.classes[index])

    @property
    def sha256(self) -> str:
        """Hash of shape, place in the sequence, and labels: the values follow from the first two."""
        digest = hashlib.sha256(repr((self.shape, self.first)).encode())
        digest.update(self.classes.astype("<i8").tobytes())
        return digest.hexdigest()
