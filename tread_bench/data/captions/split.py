"""Images with captions: what a network that is conditioned on text is trained on."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from itertools import chain

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from tread_bench.data.captions.family import Captions
from tread_bench.data.captions.features import EMPTY, CaptionFeatures
from tread_bench.data.captions.texts import Texts
from tread_bench.data.source import DataSource, Pixels


class CaptionedImages(Pixels):
    """Images of one split with captions.

    Args:
        texts: the captions of the images, in their order.
        features: of these captions, and perhaps of others.
    """

    def __init__(self, settings: Captions, pixels: Pixels, texts: Texts, features: CaptionFeatures) -> None:
        self.settings = settings
        self.pixels = pixels
        self.texts = texts
        self.classes = np.zeros(len(texts), dtype=np.int64)
        self._features = features

    @property
    def shape(self) -> tuple[int, ...]:
        """(C, H, W)."""
        return self.pixels.shape

    def uint8(self, index: NDArray[np.int64]) -> Tensor:
        """(B, C, H, W) uint8, as the feature networks take them."""
        return self.pixels.uint8(index)

    @property
    def empty_text(self) -> Tensor:
        """(M, E) float32, of the empty caption."""
        return self._features.of([EMPTY])[0]

    def text(self, index: NDArray[np.int64], seed: int, first: int) -> Tensor:
        """(B, M, E) float32, a caption of each of samples `first` ... of the seed's training."""
        return self._features.of(self.captions(index, seed, first))

    def captions(self, index: NDArray[np.int64], seed: int, first: int) -> list[str]:
        """Return the captions that `text` draws."""
        return self.texts.drawn(index, seed, first)

    @cached_property
    def sha256(self) -> str:
        """Hash of the images, their captions and the encoder."""
        found = f"{self.pixels.sha256} {self.texts.sha256} {self._features.identity}"
        return hashlib.sha256(found.encode()).hexdigest()


def with_captions(settings: Captions | None, source: DataSource, texts: Sequence[Texts | None]) -> DataSource:
    """Return the source with the captions of its training and held-out images, if they have some."""
    train, held_out = texts
    if settings is None or train is None or held_out is None:
        return source
    assert isinstance(source.train, Pixels) and isinstance(source.held_out, Pixels)
    features = CaptionFeatures(settings, chain.from_iterable(chain(train.each, held_out.each)))
    return DataSource(
        CaptionedImages(settings, source.train, train, features),
        CaptionedImages(settings, source.held_out, held_out, features),
        source.num_classes,
    )
