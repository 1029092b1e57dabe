"""Settings that all sources of image files share, without torch."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from tread_bench.core.config.base import Int, is_unused
from tread_bench.core.describe.data_sources import DataFamily, DataOptions, Place, TextEncoderOptions
from tread_bench.core.errors import UserError
from tread_bench.core.stored.data_paths import folder_name
from tread_bench.data.captions.family import ImageCaptionsChoice, caption_files

HELD_OUT_EVERY = 10  # of the training images, where a suite names no held-out ones
_ENCODED = "tread_bench.data.images.encoded"


class ImageOptions(DataOptions):
    """Settings of a source of image files."""

    splits: ClassVar[str]  # "module:attribute" of a callable options -> training and held-out `Encoded`, or None

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

    def paths(self, entries: Sequence[str]) -> list[str]:
        """Return the files and folders that entries name. Raises UserError where a folder cannot be read."""
        raise NotImplementedError

    def count(self, entries: Sequence[str]) -> int:
        """Return the number of images in them, by names and headers alone. Raises UserError."""
        raise NotImplementedError


class TableOptions(ImageOptions):
    """Settings of tables with a column of images, as Hugging Face's libraries write it."""

    splits: ClassVar[str] = "tread_bench.data.images.table:table_splits"
    table: ClassVar[str]  # "module:attribute" of their `Table`

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


def image_family(options: type[ImageOptions]) -> DataFamily:
    """Describe a source of image files."""

    def files(options: Any, generates: bool) -> Iterator[tuple[Place, str]]:
        for key in ("train", "held_out"):
            for index, entry in enumerate(getattr(options, key)):
                yield from (((key, index), read_whole(path)) for path in options.paths([entry]))
        yield from caption_files(options.captions)

    return DataFamily(
        name=options.model_fields["name"].default,
        options=options,
        builder=f"{_ENCODED}:open_splits",
        files=files,
        extractor=None,
        counts=lambda options: counted(options, options.count),
        check_files=f"{_ENCODED}:file_problems",
        check_all=f"{_ENCODED}:image_problems",
        is_flipped=lambda options: options.horizontal_flip,
    )


def read_whole(path: str) -> str:
    """Return a file as it is, and a folder as one that is read as a whole."""
    return folder_name(path) if os.path.isdir(path) else path
