"""From an image file to pixels: formats, modes and ADM's centre crop."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image

from tread_bench.data.images.family import ImageOptions

_FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF")  # pixels alone: EPS would start Ghostscript
_MODES = {1: ("L", ("L", "1")), 3: ("RGB", ("RGB", "L", "1", "P", "CMYK", "YCbCr"))}
_MOST_PIXELS = 2**27  # of an image that is enlarged; for what is stored, Pillow has a limit of its own

# What cannot be read is an error, and the rest of what Pillow says is of its own lines, whatever thread decodes.
warnings.filterwarnings("ignore", module=r"PIL\.")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What images become.

    Args:
        side: pixels of the square.
        channels: 1 or 3.
        enlarge: whether images with a shorter side than that are enlarged; else they are an error.
        key: the setting that says `side`, for messages.
        way_out: what to do about an image that is too small.
    """

    side: int
    channels: int
    enlarge: bool
    key: str = "data.image_size"
    way_out: str = "take it out, or set data.enlarge: true"

    @classmethod
    def of(cls, choice: ImageOptions) -> Wanted:
        return cls(choice.image_size, choice.channels, choice.enlarge)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(C, H, W)."""
        return self.channels, self.side, self.side


def decode(file: BinaryIO, wanted: Wanted) -> NDArray[np.uint8]:
    """Return the centre of an image, (C, H, W) uint8. Raises ValueError with the rule."""
    image = opened(file, wanted)
    mode, _ = _MODES[wanted.channels]
    with _decoder_errors_reported():
        return _channels_first(center_crop(image.convert(mode), wanted.side))


def decode_whole(file: BinaryIO, channels: int) -> NDArray[np.uint8]:
    """Return an image as it is, (C, H, W) uint8. Raises ValueError with the rule."""
    image = header(file)
    check_mode(image, channels)
    mode, _ = _MODES[channels]
    with _decoder_errors_reported():
        return _channels_first(image.convert(mode))


def _channels_first(image: Image.Image) -> NDArray[np.uint8]:
    array = np.asarray(image)
    return array.reshape(image.height, image.width, -1).transpose(2, 0, 1)


def header(file: BinaryIO) -> Image.Image:
    """Return an image whose header was read, and none of its pixels. Raises ValueError."""
    with _decoder_errors_reported():
        return Image.open(file, formats=_FORMATS)


def opened(file: BinaryIO, wanted: Wanted) -> Image.Image:
    """Return an image whose header was read and checked, and none of its pixels. Raises ValueError with the rule."""
    image = header(file)
    size = f"image of {image.width}x{image.height} pixels"
    shorter = min(image.size)
    if shorter < wanted.side and not wanted.enlarge:
        raise ValueError(f"{size} where {wanted.key} is {wanted.side}: smaller ones are not enlarged; {wanted.way_out}")
    if wanted.side**2 * max(image.size) / shorter > _MOST_PIXELS:
        raise ValueError(f"{size}: too narrow to be enlarged to {wanted.key} {wanted.side}; take it out")
    check_mode(image, wanted.channels, "data.channels ")
    return image


def is_turned(image: Image.Image) -> bool:
    """Return whether only the EXIF orientation, which is not applied, turns or mirrors an image."""
    with suppress(Exception):  # damaged EXIF turns nothing
        return "exif" in image.info and image.getexif().get(ExifTags.Base.Orientation, 1) not in (0, 1)
    return False


def turned(where: str, count: int, of: int) -> str:
    """Return the warning that `count` images are turned by EXIF alone."""
    return (
        f"{where}: {count:,} of {of:,} images are turned by their EXIF orientation alone, which is not applied, as in "
        "ADM's code; turn their pixels if they should be upright"
    )


def is_grey(image: Image.Image) -> bool:
    """Return whether an image has one channel."""
    return image.mode in _MODES[1][1]


def check_mode(image: Image.Image, channels: int, key: str = "channels ") -> None:
    """Raise ValueError if an image has other channels, or transparency; `key` names their number, for the message."""
    _, accepted = _MODES[channels]
    if image.mode not in accepted:
        raise ValueError(f"image mode {image.mode}; {key}{channels} takes {', '.join(accepted)}")
    with _decoder_errors_reported():
        is_transparent = image.has_transparency_data  # of a palette, or by a colour that stands for transparent
    if is_transparent:
        rule = "save it without, or take it out"
        raise ValueError(f"image mode {image.mode} with transparency, which would be lost; {rule}")


def center_crop(image: Image.Image, side: int) -> Image.Image:
    """Return the centre square of an image, resized to `side` pixels, as ADM does it.

    While the shorter side is at least twice as long as wanted, the image is halved by a box filter; a bicubic filter
    does the rest. An image of the wanted size stays as it is.

    Source: Dhariwal and Nichol 2021, guided_diffusion/image_datasets.py, `center_crop_arr`.
    """
    while min(image.size) >= 2 * side:
        image = image.resize((image.width // 2, image.height // 2), Image.Resampling.BOX)
    scale = side / min(image.size)
    image = image.resize((round(image.width * scale), round(image.height * scale)), Image.Resampling.BICUBIC)
    left = (image.width - side) // 2
    top = (image.height - side) // 2
    return image.crop((left, top, left + side, top + side))


@contextmanager
def _decoder_errors_reported() -> Iterator[None]:
    """Raises ValueError for whatever a decoder raises: damaged bytes may raise any exception."""
    try:
        yield
    except Exception as error:
        raise ValueError(f"not a readable image: {error}") from None
