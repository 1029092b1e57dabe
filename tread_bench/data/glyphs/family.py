"""The characters of matplotlib's fonts, without torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from tread_bench.core.config.base import Int
from tread_bench.core.describe.data_sources import DataFamily, DataOptions, Place, always_comparable
from tread_bench.core.errors import UserError
from tread_bench.data.glyphs.fonts import FACES, font_folder
from tread_bench.data.glyphs.scripts import SCRIPTS


class GlyphsData(DataOptions):
    """Characters of the fonts that come with matplotlib: ten scripts, at most 1,000 images each, drawn at any size."""

    name: Literal["glyphs"] = "glyphs"
    image_size: Int = Field(16, ge=8, le=256, description="side in pixels; a tenth of the characters is held out")

    @property
    def channels(self) -> int:
        return 1

    @property
    def num_classes(self) -> int:
        return len(SCRIPTS)


def _counts(options: GlyphsData) -> tuple[int, int] | None:
    """Drawn once to count them, in a second: which images are equal depends on their size."""
    from tread_bench.data.glyphs.render import draw_glyphs

    try:
        is_held_out = draw_glyphs(options.image_size).is_held_out
    except UserError:
        return None
    return int((~is_held_out).sum()), int(is_held_out.sum())


def _fonts(options: GlyphsData, generates: bool) -> Iterator[tuple[Place, str]]:
    """The fonts that are there; `check_files` reports one that is missing, since no option names it."""
    yield from (((), str(path)) for face in FACES if (path := font_folder() / f"{face}.ttf").is_file())


GLYPHS = DataFamily(
    name="glyphs",
    options=GlyphsData,
    builder="tread_bench.data.glyphs.source:read_glyphs",
    files=_fonts,
    not_comparable=always_comparable,
    extractor="glyphs-classifier",
    counts=_counts,
    check_files="tread_bench.data.glyphs.source:missing_fonts",
    note=(
        "The data are characters of fonts, drawn white on black, and the network is small. Results need not hold at a "
        "published size. The FIDs use a separate feature network, so they are not comparable with published ones."
    ),
)
