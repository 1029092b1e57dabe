"""Noise in the shape of latents, without torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tread_bench.core.config.base import Int
from tread_bench.core.describe.data_sources import DataFamily, DataOptions

_NOISE = "data random_latents is noise, by which no sample can be evaluated: set metrics.generate: false"


class RandomLatentsData(DataOptions):
    """Noise in the shape of ImageNet-256's latents, drawn by sample index: for speed and memory, nothing to learn."""

    name: Literal["random_latents"] = "random_latents"
    channels: Int = Field(4, ge=1)
    image_size: Int = Field(32, ge=1, description="side in latent pixels")
    num_classes: Int = Field(1000, ge=0)
    count: Int = Field(1280, ge=5, description="samples; the last fifth is held out")


RANDOM_LATENTS = DataFamily(
    name="random_latents",
    options=RandomLatentsData,
    builder="tread_bench.data.random_latents.source:draw_latents",
    files=lambda options, generates: (),
    not_comparable=lambda options: _NOISE,
    extractor=None,
    counts=lambda options: (options.count - options.count // 5, options.count // 5),
)
