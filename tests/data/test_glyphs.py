"""The characters of matplotlib's fonts: which there are, how they are drawn, and which are held out."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from tread_bench.core.describe.data_sources import data_sources
from tread_bench.core.errors import UserError
from tread_bench.data.check import data_problems
from tread_bench.data.glyphs import family, fonts
from tread_bench.data.glyphs.family import GlyphsData
from tread_bench.data.glyphs.fonts import FACES
from tread_bench.data.glyphs.render import Glyphs, draw_glyphs
from tread_bench.data.glyphs.source import GlyphSet, read_glyphs
from tread_bench.data.glyphs.words import SCRIPTS, script_of


@pytest.fixture(scope="module")
def glyphs() -> Glyphs:
    return draw_glyphs(GlyphsData().image_size)


def test_each_script_has_a_thousand_images_that_all_differ(glyphs: Glyphs) -> None:
    assert glyphs.pixels.shape == (10_000, 1, 16, 16)
    assert np.bincount(glyphs.scripts).tolist() == [1000] * len(SCRIPTS)
    assert len({image.tobytes() for image in glyphs.pixels}) == len(glyphs.pixels)
    assert glyphs.pixels.reshape(len(glyphs.pixels), -1).max(1).min() > 0


def test_a_character_is_held_out_in_all_its_faces(glyphs: Glyphs) -> None:
    held_out = glyphs.is_held_out
    assert not np.intersect1d(glyphs.code_points[held_out], glyphs.code_points[~held_out]).size
    assert set(glyphs.scripts[held_out][:128]) == set(range(len(SCRIPTS)))  # validation takes the first ones
    shares = np.bincount(glyphs.scripts, held_out) / 1000
    assert 0.09 < shares.mean() < 0.11 and shares.min() > 0.05


def test_the_script_follows_from_the_unicode_name() -> None:
    found = [script_of(character) for character in "AΩЖ→∑𝐀☺€⠿\ue000"]
    assert found == ["latin", "greek", "cyrillic", "arrow", "math", "math", "symbol", "symbol", "braille", ""]


def test_the_fonts_are_part_of_the_fingerprint(glyphs: Glyphs) -> None:
    parts = [GlyphSet(glyphs.pixels[:4], glyphs.scripts[:4], fonts) for fonts in ("a", "a", "b")]
    assert parts[0].sha256 == parts[1].sha256 != parts[2].sha256
    assert read_glyphs(GlyphsData()).train.fonts_sha256 == glyphs.fonts_sha256
    assert [path for _, path in family.GLYPHS.files(GlyphsData(), True)] == [*map(str, fonts.font_files())]


def test_a_missing_font_is_reported_with_the_way_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for module in (fonts, family):
        monkeypatch.setattr(module, "font_folder", lambda: tmp_path)
    options = GlyphsData(image_size=9)  # which this process has not drawn
    with pytest.raises(UserError, match=rf"{FACES[0]}\.ttf: no such file; .*reinstall matplotlib") as raised:
        read_glyphs(options)
    assert data_problems([(options, True)]) == [str(raised.value)]
    assert data_sources.find("glyphs").counts(options) is None


def test_images_of_some_fonts_are_a_part_of_all_and_those_of_others_are_the_rest(glyphs):
    """Other styles of the same characters: what a network is trained on, and what its training goes on with."""
    parts = [GlyphsData(fonts=fonts) for fonts in (("sans", "mono"), ("serif",), ("stix",))]
    whole = read_glyphs(GlyphsData())
    assert family.GLYPHS.counts(GlyphsData()) == (len(whole.train), len(whole.held_out))
    assert GlyphsData().model_dump() == {"name": "glyphs", "image_size": 16}
    for split in ("train", "held_out"):
        images = [image.tobytes() for image in getattr(whole, split).pixels]
        found = [[image.tobytes() for image in getattr(read_glyphs(part), split).pixels] for part in parts]
        assert sorted(chain(*found)) == sorted(images) and all(map(len, found))
        assert len({getattr(read_glyphs(part), split).sha256 for part in parts}) == 3
    train, held_out = glyphs.splits(["stix"])
    assert {FACES[face][:9] for face in set(glyphs.faces[train | held_out])} == {"STIXGener"}
    for part in parts:
        source = read_glyphs(part)
        assert family.GLYPHS.counts(part) == (len(source.train), len(source.held_out))
