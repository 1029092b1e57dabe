"""What becomes of an image file: ADM's centre crop, modes, and one clear rule for each file that cannot be used."""

from __future__ import annotations

import io
import struct
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tread_bench.data.images.decode import Wanted, center_crop, decode

RANDOM = np.random.default_rng(0)
BOX, BICUBIC = Image.Resampling.BOX, Image.Resampling.BICUBIC


def picture(width: int, height: int) -> Image.Image:
    return Image.fromarray(RANDOM.integers(0, 256, (height, width, 3), dtype=np.uint8))


def encoded(image: Image.Image, kind: str = "PNG") -> io.BytesIO:
    buffer = io.BytesIO()
    image.save(buffer, kind)
    return buffer


def wanted(side: int, **more: Any) -> Wanted:
    return Wanted(side, **{"channels": 3, "enlarge": False, **more})


CROPS = {  # what ADM does to images of these sizes, for 16 pixels, step by step
    "the same": (16, 16, lambda image: image),
    "wide": (23, 16, lambda image: image.crop((3, 0, 19, 16))),
    "less than twice": (31, 31, lambda image: image.resize((16, 16), BICUBIC)),
    "twice": (32, 32, lambda image: image.resize((16, 16), BOX)),
    "halved once": (64, 37, lambda image: image.resize((32, 18), BOX).resize((28, 16), BICUBIC).crop((6, 0, 22, 16))),
    "halved twice": (70, 141, lambda image: image.resize((35, 70), BOX).resize((17, 35), BOX)
        .resize((16, 33), BICUBIC).crop((0, 8, 16, 24))),
    "enlarged": (8, 12, lambda image: image.resize((16, 24), BICUBIC).crop((0, 4, 16, 20))),
}  # fmt: skip


@pytest.mark.parametrize(("width", "height", "steps"), CROPS.values(), ids=CROPS.keys())
def test_the_centre_is_cut_out_as_adm_does_it(width: int, height: int, steps: Any) -> None:
    image = picture(width, height)
    assert np.array_equal(np.asarray(center_crop(image, 16)), np.asarray(steps(image)))


def test_colours_are_converted_before_they_are_mixed() -> None:
    image = picture(64, 40)
    paletted = image.quantize(7)
    expected = np.asarray(center_crop(paletted.convert("RGB"), 16)).transpose(2, 0, 1)
    assert np.array_equal(decode(encoded(paletted), wanted(16)), expected)


@pytest.mark.parametrize("mode", ["L", "1", "P", "CMYK", "RGB"])
def test_colour_and_grey_images_become_colour(mode: str) -> None:
    pixels = decode(encoded(picture(16, 16).convert(mode), "TIFF"), wanted(16))
    assert pixels.shape == (3, 16, 16) and pixels.dtype == np.uint8


def with_text_in_tag(tag: int) -> bytes:
    """A TIFF that has text where numbers should be, of which Pillow raises whatever it likes."""
    return encoded(picture(16, 16), "TIFF").getvalue().replace(struct.pack("<HH", tag, 4), struct.pack("<HH", tag, 2))


DAMAGED = {
    "cut": lambda: encoded(picture(16, 16)).getvalue()[:-100],
    "no image": lambda: b"no image",
    "TypeError": lambda: with_text_in_tag(273),  # where the pixels begin
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_image_is_refused_whatever_pillow_raises(name: str) -> None:
    with pytest.raises(ValueError, match="not a readable image"):
        decode(io.BytesIO(DAMAGED[name]()), wanted(16))


WRONG = {
    "small": (picture(16, 15), {}, "image of 16x15 pixels where data.image_size is 16: smaller ones are not enlarged"),
    "narrow": (picture(1, 3000), {"side": 256, "enlarge": True}, "1x3000 pixels: too narrow to be enlarged"),
    "alpha": (picture(16, 16).convert("RGBA"), {}, "image mode RGBA; data.channels 3 takes RGB"),
    "colour": (picture(16, 16), {"channels": 1}, "image mode RGB; data.channels 1 takes L, 1"),
}


@pytest.mark.parametrize(("mode", "kind"), [("P", "PNG"), ("L", "PNG"), ("RGB", "PNG"), ("P", "GIF")])
def test_transparency_without_an_alpha_channel_is_refused(mode: str, kind: str) -> None:
    image = picture(16, 16).quantize(8) if mode == "P" else picture(16, 16).convert(mode)
    buffer = io.BytesIO()
    image.save(buffer, kind, transparency=(1, 2, 3) if mode == "RGB" else 1)
    with pytest.raises(ValueError, match=r"image mode \w+ with transparency, which would be lost; save it without"):
        decode(buffer, wanted(16))


@pytest.mark.parametrize(("image", "more", "message"), WRONG.values(), ids=WRONG.keys())
def test_an_image_that_cannot_be_used_is_refused_by_its_rule(image: Any, more: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decode(encoded(image), wanted(**{"side": 16, **more}))
