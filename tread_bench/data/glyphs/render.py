"""Draws the characters of the fonts that come with matplotlib: real shapes at any size, without a download.

DejaVu and STIX in four faces each have 35,000 distinct images in 20 scripts. The fonts are free to use and to
redistribute: their licences are beside them in matplotlib's folder.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from tread_bench.core.numbers import draws
from tread_bench.core.processes import import_matplotlib
from tread_bench.data.glyphs.fonts import faces_of, font_files
from tread_bench.data.glyphs.words import SCRIPTS, script_of

MOST_IMAGES = 1000  # of a script, training and held out together
_HELD_OUT = 10  # one in so many characters
_DRAWN_LARGER = 4  # and averaged: a font's hints for small sizes would change shapes from size to size


@dataclass(frozen=True)
class Glyphs:
    """Distinct images in an order that was drawn.

    Args:
        pixels: (N, 1, S, S) uint8, white on black.
        scripts: (N,) int64, places in `SCRIPTS`.
        code_points: (N,) int64; a character may occur in several faces.
        faces: (N,) int64, places in `fonts.FACES`.
        fonts_sha256: of the fonts' files.
    """

    pixels: NDArray[np.uint8]
    scripts: NDArray[np.int64]
    code_points: NDArray[np.int64]
    faces: NDArray[np.int64]
    fonts_sha256: str

    @property
    def is_held_out(self) -> NDArray[np.bool_]:
        """(N,): a character is held out in all its faces, so that none is known by its bold twin."""
        count = int(self.code_points.max()) + 1
        return draws.integers(0, "glyphs/held out", 0, count, _HELD_OUT)[self.code_points] == 0

    def splits(self, fonts: Collection[str]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """(N,) each: whether an image is a training image of these fonts, and whether it is a held-out one."""
        of_fonts = np.isin(self.faces, faces_of(fonts))
        return of_fonts & ~self.is_held_out, of_fonts & self.is_held_out


@lru_cache(maxsize=1)
def draw_glyphs(image_size: int) -> Glyphs:
    """Draw at most 1,000 images of each script, at 3/4 of the image's side. Raises UserError."""
    paths = font_files()
    size = _DRAWN_LARGER * image_size * 3 // 4  # before they are averaged
    fonts = [ImageFont.truetype(path, size, layout_engine=ImageFont.Layout.BASIC) for path in paths]
    found: dict[bytes, tuple[int, int, int]] = {}  # distinct images -> script, code point, face
    counts: Counter[int] = Counter()

    # Go through all characters of all faces in a drawn order. Scripts share shapes, such as a Latin and a Greek A: the
    # first that comes has it.
    blank = bytes(image_size**2)
    for face, code_point, script in _in_drawn_order(paths):
        if counts[script] < MOST_IMAGES:
            pixels = _drawn(fonts[face], chr(code_point), image_size)
            if pixels != blank and pixels not in found:
                found[pixels] = script, code_point, face
                counts[script] += 1

    scripts, code_points, faces = np.array([*found.values()], dtype=np.int64).T
    images = np.frombuffer(b"".join(found), dtype=np.uint8).reshape(-1, 1, image_size, image_size)
    digest = hashlib.sha256(b"".join(hashlib.sha256(path.read_bytes()).digest() for path in paths))
    return Glyphs(images, scripts, code_points, faces, digest.hexdigest())


def characters(path: Path) -> Iterator[tuple[int, str]]:
    """Code point and script of each character that a font has and Unicode names."""
    import_matplotlib()
    from matplotlib.ft2font import FT2Font

    for code_point in sorted(FT2Font(str(path)).get_charmap()):
        if script := script_of(chr(code_point)):
            yield code_point, script


def _in_drawn_order(paths: list[Path]) -> list[tuple[int, int, int]]:
    """Face, code point and script of all characters in `SCRIPTS`, by a number drawn for each face and code point."""
    number = {script: place for place, script in enumerate(SCRIPTS)}
    found = []
    for face, path in enumerate(paths):
        here = [(code_point, number[script]) for code_point, script in characters(path) if script in number]
        drawn = draws.words(0, f"glyphs/order of {path.stem}", 0, here[-1][0] + 1, 1)[:, 0]
        found += [(int(drawn[code_point]), face, code_point, script) for code_point, script in here]
    return [one[1:] for one in sorted(found)]


def _drawn(font: ImageFont.FreeTypeFont, character: str, image_size: int) -> bytes:
    side = _DRAWN_LARGER * image_size
    image = Image.new("L", (side, side))
    ImageDraw.Draw(image).text((side // 2, side // 2), character, fill=255, font=font, anchor="mm")
    return image.reduce(_DRAWN_LARGER).tobytes()
