"""The characters of matplotlib's fonts, encoded when they are read: some seconds for all of them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tread_bench.data.encode.vae import in_chunks
from tread_bench.data.glyph_latents.family import IMAGES, WEIGHTS, GlyphLatentsData
from tread_bench.data.glyph_latents.network import open_autoencoder
from tread_bench.data.glyphs.source import read_glyphs
from tread_bench.data.precision import full_float32
from tread_bench.data.source import DataSource, DataSplit, files_sha256

_CHUNK = 64  # images encoded at a time


def read_glyph_latents(choice: GlyphLatentsData, folder: Path | None = None) -> DataSource:
    """Latents of the training and held-out images of `glyphs`, and these images to compare with. Raises UserError."""
    return _encoded()


@lru_cache(maxsize=1)
def _encoded() -> DataSource:
    glyphs = read_glyphs(IMAGES)
    train, held_out = (LatentSet(part, _latents(part)) for part in (glyphs.train, glyphs.held_out))
    return DataSource(train, held_out, glyphs.num_classes, real_images=glyphs.reference)


@torch.no_grad()
def _latents(images: DataSplit) -> Tensor:
    """(N, 2, 16, 16) of all images."""
    network = open_autoencoder(WEIGHTS)
    with full_float32(torch.device("cpu")):
        return in_chunks(network.encode, images.images(np.arange(len(images))), _CHUNK)


@dataclass(frozen=True)
class LatentSet:
    """Latents of one split, (N, C, H, W) float32, in the order of its images."""

    pictures: DataSplit
    latents: Tensor

    def __len__(self) -> int:
        return len(self.latents)

    @property
    def shape(self) -> tuple[int, ...]:
        """(C, H, W)."""
        return tuple(self.latents.shape[1:])

    @cached_property
    def sha256(self) -> str:
        """Hash of images, labels and the autoencoder: latents differ between machines by rounding."""
        return hashlib.sha256(f"{self.pictures.sha256} {files_sha256([str(WEIGHTS)])}".encode()).hexdigest()

    def images(self, index: NDArray[np.int64]) -> Tensor:
        """(B, C, H, W) float32."""
        return self.latents[torch.from_numpy(index)]

    def labels(self, index: NDArray[np.int64]) -> Tensor:
        """(B,) int64."""
        return self.pictures.labels(index)
