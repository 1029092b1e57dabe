"""Noise in the shape of latents, where only speed and memory count: a step costs the same whatever it learns from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tread_bench import draws
from tread_bench.data.source import DataSource, ImageSet

if TYPE_CHECKING:
    from tread_bench.config import RandomLatentsData


def draw_latents(choice: RandomLatentsData) -> DataSource:
    """`count` samples of uniform values in [-1, 1] with uniform labels, the last fifth held out."""
    shape, count = (choice.channels, choice.image_size, choice.image_size), choice.count
    values = (draws.uniform(0, "random latents", 0, count, shape) * 256).astype(np.uint8)
    classes = draws.integers(0, "labels of random latents", 0, count, max(choice.num_classes, 1))
    last = count - count // 5
    held_out = ImageSet(values[last:], classes[last:])
    return DataSource(ImageSet(values[:last], classes[:last]), held_out, choice.num_classes)
