"""The characters of matplotlib's fonts as training and held-out images."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

from tread_bench.data.captions.features import with_captions
from tread_bench.data.captions.texts import Texts
from tread_bench.data.check import message_of
from tread_bench.data.glyphs.family import GlyphsData
from tread_bench.data.glyphs.fonts import FACES, font_files
from tread_bench.data.glyphs.render import draw_glyphs
from tread_bench.data.glyphs.words import caption_of
from tread_bench.data.source import DataSource, ImageSet


def read_glyphs(choice: GlyphsData) -> DataSource:
    """At most 10,000 images, about a tenth of them held out: all faces of a character. Raises UserError."""
    glyphs = draw_glyphs(choice.image_size)
    parts = glyphs.splits(choice.fonts)
    train, held_out = (GlyphSet(glyphs.pixels[part], glyphs.scripts[part], glyphs.fonts_sha256) for part in parts)
    source = DataSource(train, held_out, choice.num_classes)

    # A caption of each character.
    texts = []
    for part in parts:
        characters = zip(glyphs.faces[part].tolist(), glyphs.code_points[part].tolist(), strict=True)
        texts.append(Texts([[caption_of(FACES[face], code_point)] for face, code_point in characters]))
    return with_captions(choice.captions, source, texts)


def missing_fonts(choice: GlyphsData, generates: bool) -> list[str]:
    """Return a message where a font is missing."""
    return list(message_of(font_files))


@dataclass(frozen=True)
class GlyphSet(ImageSet):
    """Images of one split, and the hash of the fonts that they were drawn from."""

    fonts_sha256: str

    @cached_property
    def sha256(self) -> str:
        """Hash of images, labels and fonts."""
        images = ImageSet(self.pixels, self.classes)
        return hashlib.sha256(f"{images.sha256} {self.fonts_sha256}".encode()).hexdigest()
