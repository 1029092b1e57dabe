"""Settings that all sources of image files share, without torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from tread_bench.core.config.base import Int, is_unused
from tread_bench.core.describe.data_sources import DataOptions, Place
from tread_bench.core.describe.text_encoders import TextEncoderOptions
from tread_bench.core.errors import UserError
from tread_bench.core.names import few
from tread_bench.core.stored.data_paths import all_matches, folder_name, matches
from tread_bench.data.captions.family import ImageCaptionsChoice, caption_files

HELD_OUT_EVERY = 10  # of the training images, where a suite names no held-out ones
_LABEL_BYTES = 8
_NAMED = 3  # folders in a message


class ImageOptions(DataOptions):
    """Settings of a source of image files."""

    image_size: Int = Field(
        ge=1, description="side in pixels; of other images ADM's centre crop is taken: the centre square, resized"
    )
    channels: Literal[1, 3] = 3
    num_classes: Int = Field(ge=0, description="0: without labels")
    horizontal_flip: bool = Field(False, description="mirror half of the training images, drawn by sample index")
    enlarge: bool = Field(
        False,
        exclude_if=is_unused,
        description="enlarge images whose shorter side is below image_size, as ADM does; without it they are an error",
    )
    captions: ImageCaptionsChoice | None = Field(
        None, exclude_if=is_unused, description="captions in place of labels: an encoder, and where they are"
    )

    @model_validator(mode="after")
    def _has_captions_or_labels(self) -> Self:
        if self.captions is not None and self.num_classes:
            raise ValueError(f"num_classes {self.num_classes}: captions take the place of labels; set num_classes: 0")
        return self

    @property
    def text_encoder(self) -> TextEncoderOptions | None:
        return None if self.captions is None else self.captions.encoder


class TableOptions(ImageOptions):
    """Settings of a table with a column of images, as Hugging Face's libraries write it."""

    image_column: str = "image"
    label_column: str = "label"


def counted(options: Any, count: Callable[[tuple[str, ...]], int]) -> tuple[int, int] | None:
    """Training and held-out samples; without held-out ones, every tenth of the others is held out.

    Args:
        count: samples in a split, by its entries; where it raises UserError, the result is None.
    """
    try:
        train = count(options.train)
        if options.held_out:
            return train, count(options.held_out)
    except UserError:
        return None
    held_out = train // HELD_OUT_EVERY
    return train - held_out, held_out


def too_few_to_split(options: Any, train: int) -> Iterator[str]:
    """A message where none of so few training images is held out, and a suite names no held-out ones."""
    if not options.held_out and 0 < train < HELD_OUT_EVERY:
        yield (
            f"{few(all_matches(options.train), _NAMED)}: {train} images, where every tenth is held out: name others "
            "under data.held_out"
        )


def whole_folders(options: Any, generates: bool) -> Iterator[tuple[Place, str]]:
    """Folders that a source names, each as a whole: it may have millions of files; and the files of captions."""
    for key in ("train", "held_out"):
        for index, entry in enumerate(getattr(options, key)):
            yield from (((key, index), folder_name(path)) for path in matches(entry))
    yield from caption_files(options.captions)


def pixel_bytes(options: ImageOptions, count: int) -> int:
    """Of that many decoded images with their labels."""
    return count * (options.channels * options.image_size**2 + _LABEL_BYTES)


def is_flipped(options: Any) -> bool:
    """Return whether a suite requests flips."""
    return bool(options.horizontal_flip)
