"""Random samples of the shape of missing ones, without torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tread_bench.core.config.base import Int, is_unused
from tread_bench.core.describe.data_sources import DataFamily, DataOptions, Decoding

TRAIN, HELD_OUT = 64, 16  # samples


class StandInData(DataOptions):
    """Random samples, which stand in a smoke run in place of files that are missing."""

    name: Literal["stand_in"] = "stand_in"
    image_size: Int = Field(32, ge=1)
    channels: Int = Field(3, ge=1)
    num_classes: Int = Field(10, ge=0)
    text: tuple[Int, Int] | None = Field(None, exclude_if=is_unused, description="tokens and width of captions")
    picture_size: Int | None = Field(
        None, exclude_if=is_unused, ge=1, description="side of the images that the samples are latents of"
    )
    is_decoded: bool = Field(
        False, exclude_if=is_unused, description="samples become images of that side, by enlargement alone"
    )

    @property
    def text_shape(self) -> tuple[int, int] | None:
        return self.text


def _decoding(options: StandInData) -> Decoding | None:
    if not options.is_decoded or options.picture_size is None:
        return None
    return Decoding(path=None, scale=1.0, image_size=options.picture_size)


STAND_IN = DataFamily(
    name="stand_in",
    options=StandInData,
    builder="tread_bench.data.stand_in.source:draw_stand_in",
    files=lambda options, generates: (),
    extractor=None,
    counts=lambda options: (TRAIN, HELD_OUT),
    decoding=_decoding,
    has_pictures=lambda options: options.picture_size is not None,
)
