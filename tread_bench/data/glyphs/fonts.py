"""The files of the fonts that come with matplotlib, which is not imported for that: it takes a third of a second."""

from __future__ import annotations

from collections.abc import Collection
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, get_args

from tread_bench.core.errors import UserError

FACES = (
    *("DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique", "DejaVuSans-BoldOblique"),
    *("DejaVuSansMono", "DejaVuSansMono-Bold", "DejaVuSansMono-Oblique", "DejaVuSansMono-BoldOblique"),
    *("DejaVuSerif", "DejaVuSerif-Bold", "DejaVuSerif-Italic", "DejaVuSerif-BoldItalic"),
    *("STIXGeneral", "STIXGeneralBol", "STIXGeneralItalic", "STIXGeneralBolIta"),
)

Font = Literal["sans", "mono", "serif", "stix"]  # four faces each, in this order
FONTS: tuple[Font, ...] = get_args(Font)


def faces_of(fonts: Collection[str]) -> list[int]:
    """Return the places in `FACES` of the faces of some fonts; of all of them, where none is named."""
    each = len(FACES) // len(FONTS)
    return [face for face in range(len(FACES)) if not fonts or FONTS[face // each] in fonts]


def font_folder() -> Path:
    """Return where matplotlib keeps them."""
    spec = find_spec("matplotlib")
    assert spec is not None and spec.origin is not None  # this package depends on it
    return Path(spec.origin).with_name("mpl-data") / "fonts" / "ttf"


def font_files() -> list[Path]:
    """Return the files of `FACES`. Raises UserError where one is missing."""
    paths = [font_folder() / f"{face}.ttf" for face in FACES]
    if missing := [path for path in paths if not path.is_file()]:
        raise UserError(f"{missing[0]}: no such file; data glyphs needs matplotlib's own fonts: reinstall matplotlib")
    return paths
