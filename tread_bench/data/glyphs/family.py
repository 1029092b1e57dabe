"""The characters of matplotlib's fonts, without torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from tread_bench.core.config.base import Whole, is_unused
from tread_bench.core.describe.data_sources import DataFamily, DataOptions, Place, TextEncoderOptions
from tread_bench.core.errors import UserError
from tread_bench.data.captions.family import CaptionsChoice, caption_files
from tread_bench.data.glyphs.fonts import FACES, Font, font_folder
from tread_bench.data.glyphs.words import SCRIPTS


class GlyphsData(DataOptions):
    """Characters of the fonts that come with matplotlib: ten scripts, at most 1,000 images each, drawn at any size."""

    name: Literal["glyphs"] = "glyphs"
    image_size: Whole = Field(16, ge=8, le=256, description="side in pixels; a tenth of the characters is held out")
    fonts: tuple[Font, ...] = Field(
        (), exclude_if=is_unused, description="whose characters are taken, of those that all fonts have; empty: all"
    )
    captions: CaptionsChoice | None = Field(
        None,
        exclude_if=is_unused,
        description="captions such as 'a bold Latin capital K in DejaVu Sans' in place of labels: their encoder",
    )

    @property
    def channels(self) -> int:
        return 1

    @property
    def num_classes(self) -> int:
        return 0 if self.captions is not None else len(SCRIPTS)

    @property
    def text_encoder(self) -> TextEncoderOptions | None:
        return None if self.captions is None else self.captions.encoder


def _counts(options: GlyphsData) -> tuple[int, int] | None:
    """Drawn once to count them, in a second: which images are equal depends on their size."""
    from tread_bench.data.glyphs.render import draw_glyphs

    try:
        train, held_out = draw_glyphs(options.image_size).splits(options.fonts)
    except UserError:
        return None
    return int(train.sum()), int(held_out.sum())


def _files(options: GlyphsData, generates: bool) -> Iterator[tuple[Place, str]]:
    """Those of the encoder, and the fonts that are there; `check_files` reports a font that is missing."""
    yield from caption_files(options.captions)
    yield from (((), str(path)) for face in FACES if (path := font_folder() / f"{face}.ttf").is_file())


GLYPHS = DataFamily(
    name="glyphs",
    options=GlyphsData,
    builder="tread_bench.data.glyphs.source:read_glyphs",
    files=_files,
    extractor="glyphs-classifier",
    counts=_counts,
    check_files="tread_bench.data.glyphs.source:missing_fonts",
    note=(
        "The data are characters of fonts, drawn white on black, and the network is small. Results need not hold at a "
        "published size. The FIDs use a separate feature network, so they are not comparable with published ones."
    ),
)
