"""Random samples, their captions and images, drawn by number; and a decoder of random weights."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tread_bench.core.numbers import draws
from tread_bench.core.stored.files import write_atomically
from tread_bench.data.random_latents.source import drawn_levels
from tread_bench.data.source import DataSource, Pixels, from_uint8
from tread_bench.data.stand_in.family import HELD_OUT, TRAIN, StandInData

_DECODED = 16  # latents that an exported decoder takes at a time
_WORDS = ("one", "small", "random", "square", "of", "eight", "coloured", "dots")


def draw_stand_in(choice: StandInData) -> DataSource:
    """Uniform samples in [-1, 1], labels in turn; with captions and images beside them if requested."""
    kind = RandomSamples if choice.text is None else CaptionedSamples
    classes = np.arange(TRAIN + HELD_OUT) % max(choice.num_classes, 1)
    shape = (choice.channels, choice.image_size, choice.image_size)
    train, held_out = kind(choice, shape, 0, classes[:TRAIN]), kind(choice, shape, TRAIN, classes[TRAIN:])
    real = None
    if choice.decoder is not None and choice.picture_size is not None:
        real = RandomSamples(choice, (3, choice.picture_size, choice.picture_size), 0, classes[:TRAIN])
    return DataSource(train, held_out, choice.num_classes, real)


class RandomSamples(Pixels):
    """Samples `first` ... of an endless sequence, one for each label.

    Args:
        shape: (C, H, W).
        classes: (N,) labels.
    """

    def __init__(
        self, choice: StandInData, shape: tuple[int, int, int], first: int, classes: NDArray[np.int64]
    ) -> None:
        self.choice, self.first, self.classes = choice, first, classes
        self._shape = shape

    @property
    def shape(self) -> tuple[int, ...]:
        """(C, H, W)."""
        return self._shape

    def uint8(self, index: NDArray[np.int64]) -> Tensor:
        """(B, C, H, W) uint8."""
        return drawn_levels(self.shape, self.first + index)

    def pictures(self, index: NDArray[np.int64], seed: int, first: int) -> Tensor:
        """(B, C, S, S) float32 in [-1, 1]: of latents the images beside them, else the samples."""
        side = self.choice.picture_size
        return from_uint8(drawn_levels(self.shape if side is None else (3, side, side), self.first + index))

    @property
    def sha256(self) -> str:
        """Hash of what the values follow from."""
        return hashlib.sha256(repr((self.choice, self.shape, self.first)).encode()).hexdigest()


class CaptionedSamples(RandomSamples):
    """Samples with captions."""

    @property
    def empty_text(self) -> Tensor:
        """(M, E) float32."""
        return torch.zeros(self.choice.text or ())

    def text(self, index: NDArray[np.int64], seed: int, first: int) -> Tensor:
        """(B, M, E) float32, of samples `first` ... of the seed's training."""
        return torch.from_numpy(
            draws.normal(seed, "text of a stand-in", first, len(index), self.choice.text or (), np.float32)
        )

    def captions(self, index: NDArray[np.int64], seed: int, first: int) -> list[str]:
        """Random words for each of these samples."""
        starts = draws.integers(seed, "captions of a stand-in", first, len(index), len(_WORDS))
        return [" ".join(_WORDS[start:] + _WORDS[:start]) for start in starts.tolist()]


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
