"""Random samples, their captions and images, drawn by number."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tread_bench.core.numbers import draws
from tread_bench.data.random_latents.source import drawn_levels
from tread_bench.data.source import DataSource, ImageSet, from_uint8
from tread_bench.data.stand_in.family import HELD_OUT, TRAIN, StandInData


def draw_stand_in(choice: StandInData) -> DataSource:
    """Uniform samples in [-1, 1], labels in turn; with captions and images beside them if requested."""
    kind = RandomSamples if choice.text is None else CaptionedSamples
    numbers, side = np.arange(TRAIN + HELD_OUT), choice.picture_size
    classes = numbers % max(choice.num_classes, 1)
    pixels = drawn_levels((choice.channels, choice.image_size, choice.image_size), numbers).numpy()
    beside = pixels if side is None else drawn_levels((3, side, side), numbers).numpy()
    parts = slice(None, TRAIN), slice(TRAIN, None)
    train, held_out = (kind(pixels[part], classes[part], beside[part], choice.text or ()) for part in parts)
    real = ImageSet(train.beside, train.classes) if choice.is_decoded else None
    return DataSource(train, held_out, choice.num_classes, real)


@dataclass(frozen=True)
class RandomSamples(ImageSet):
    """Random samples.

    Args:
        beside: (N, C, S, S) uint8: of latents the images beside them, else the samples.
        text_shape: (M, E) of their captions; empty: there are none.
    """

    beside: NDArray[np.uint8]
    text_shape: tuple[int, ...]

    def pictures(self, index: NDArray[np.int64], seed: int, first: int) -> Tensor:
        """(B, C, S, S) float32 in [-1, 1]."""
        return from_uint8(torch.from_numpy(self.beside[index]))


class CaptionedSamples(RandomSamples):
    """Samples with captions."""

    @property
    def empty_text(self) -> Tensor:
        """(M, E) float32."""
        return torch.zeros(self.text_shape)

    def text(self, index: NDArray[np.int64], seed: int, first: int) -> Tensor:
        """(B, M, E) float32, of samples `first` ... of the seed's training."""
        return torch.from_numpy(
            draws.normal(seed, "text of a stand-in", first, len(index), self.text_shape, np.float32)
        )

    def captions(self, index: NDArray[np.int64], seed: int, first: int) -> list[str]:
        """No words: there are features alone."""
        return [""] * len(index)
