"""Random samples, their captions and images, drawn by number; and a decoder of random weights."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tread_bench.core.numbers import draws
from tread_bench.core.stored.files import write_atomically
from tread_bench.data.random_latents.source import drawn_levels
from tread_bench.data.source import DataSource, ImageSet, from_uint8
from tread_bench.data.stand_in.family import HELD_OUT, TRAIN, StandInData

_DECODED = 16  # latents that an exported decoder takes at a time


def draw_stand_in(choice: StandInData) -> DataSource:
    """Uniform samples in [-1, 1], labels in turn; with captions and images beside them if requested."""
    kind = RandomSamples if choice.text is None else CaptionedSamples
    numbers, side = np.arange(TRAIN + HELD_OUT), choice.picture_size
    classes = numbers % max(choice.num_classes, 1)
    pixels = drawn_levels((choice.channels, choice.image_size, choice.image_size), numbers).numpy()
    beside = pixels if side is None else drawn_levels((3, side, side), numbers).numpy()
    parts = slice(None, TRAIN), slice(TRAIN, None)
    train, held_out = (kind(pixels[part], classes[part], beside[part], choice.text or ()) for part in parts)
    real = None if choice.decoder is None else ImageSet(train.beside, train.classes)
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


def write_decoder(path: Path, channels: int, image_size: int, picture_size: int) -> None:
    """Write a program of a convolution and an enlargement, with random weights, from latents to images."""
    decoder = torch.nn.Sequential(
        torch.nn.Conv2d(channels, 3, 1), torch.nn.Upsample(size=(picture_size, picture_size)), torch.nn.Tanh()
    )
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in decoder.parameters():
            parameter.normal_(std=0.1, generator=generator)
    program = torch.export.export(decoder.eval(), (torch.zeros(_DECODED, channels, image_size, image_size),))
    content = io.BytesIO()
    torch.export.save(program, content)
    write_atomically(path, content.getvalue())
