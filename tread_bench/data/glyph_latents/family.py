"""Latents of the characters of matplotlib's fonts, without torch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from tread_bench.core.describe.data_sources import DataFamily, DataOptions, Decoding, Place, always_comparable
from tread_bench.data.glyphs.family import GLYPHS, GlyphsData
from tread_bench.data.glyphs.scripts import SCRIPTS

WEIGHTS = Path(__file__).parent / "weights" / "glyphs_autoencoder.safetensors"
IMAGES = GlyphsData(image_size=32)
LATENT_CHANNELS = 2
_DOWNSAMPLING = 2


class GlyphLatentsData(DataOptions):
    """Latents of glyphs of 32 pixels, by a small autoencoder that comes with the package: 16 x 16 of 2 channels."""

    name: Literal["glyph_latents"] = "glyph_latents"

    @property
    def image_size(self) -> int:
        return IMAGES.image_size // _DOWNSAMPLING

    @property
    def channels(self) -> int:
        return LATENT_CHANNELS

    @property
    def num_classes(self) -> int:
        return len(SCRIPTS)


def _counts(options: GlyphLatentsData) -> tuple[int, int] | None:
    return GLYPHS.counts(IMAGES)


def _files(options: GlyphLatentsData, generates: bool) -> Iterator[tuple[Place, str]]:
    """The fonts, and the weights of the autoencoder."""
    yield from GLYPHS.files(IMAGES, generates)
    yield (), str(WEIGHTS)


def _decoding(options: GlyphLatentsData) -> Decoding:
    return Decoding(
        str(WEIGHTS),
        scale=1.0,
        image_size=IMAGES.image_size,
        channels=IMAGES.channels,
        network="tread_bench.data.glyph_latents.network:open_autoencoder",
    )


GLYPH_LATENTS = DataFamily(
    name="glyph_latents",
    options=GlyphLatentsData,
    builder="tread_bench.data.glyph_latents.source:read_glyph_latents",
    files=_files,
    not_comparable=always_comparable,
    extractor=GLYPHS.extractor,
    counts=_counts,
    check_files=GLYPHS.check_files,
    decoding=_decoding,
    note=(
        "The data are latents of characters of fonts, the autoencoder and the network are small. Results need not hold "
        "at a published size. The FIDs use a separate feature network, so they are not comparable with published ones."
    ),
)
