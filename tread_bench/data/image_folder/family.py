"""Image files in class folders, without torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from tread_bench.core.data_paths import folder_name, matches
from tread_bench.core.data_sources import DataFamily, Place, always_comparable
from tread_bench.core.errors import UserError
from tread_bench.data.image_folder.listing import listed
from tread_bench.data.images.family import ImageOptions, is_flipped, pixel_bytes, split_counts


class ImageFolderData(ImageOptions):
    """Image files in local class folders (`train/cat/1.jpg`), as torchvision's ImageFolder reads them."""

    name: Literal["image_folder"] = "image_folder"
    train: tuple[str, ...] = Field(
        min_length=1, description="folders, or globs of folders, with a folder of images for each class"
    )
    held_out: tuple[str, ...] = Field(
        (), description="the same with the held-out images; empty: every tenth training image is held out"
    )


def _files(options: ImageFolderData, generates: bool) -> Iterator[tuple[Place, str]]:
    """Folders as a whole: a data set may have millions of files."""
    for key in ("train", "held_out"):
        for index, entry in enumerate(getattr(options, key)):
            yield from (((key, index), folder_name(path)) for path in matches(entry))


def _counts(options: ImageFolderData) -> tuple[int, int] | None:
    try:
        train = listed(options.train)
        held_out = listed(options.held_out) if options.held_out else None
    except UserError:
        return None
    return split_counts(len(train.paths), None if held_out is None else len(held_out.paths))


def _decoded_bytes(options: ImageFolderData) -> int:
    return pixel_bytes(options, sum(_counts(options) or ()))


IMAGE_FOLDER = DataFamily(
    name="image_folder",
    options=ImageFolderData,
    builder="tread_bench.data.image_folder.source:open_folders",
    files=_files,
    not_comparable=always_comparable,
    extractor=None,
    counts=_counts,
    check_files="tread_bench.data.image_folder.source:file_problems",
    check_all="tread_bench.data.image_folder.source:image_problems",
    stand_in="tread_bench.data.images.stand_in:write_folders",
    is_flipped=is_flipped,
    decoded_bytes=_decoded_bytes,
)
