"""Image files in class folders, without torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from tread_bench.core.config.base import is_unused
from tread_bench.core.stored.data_paths import all_matches, folder_name
from tread_bench.data.captions.family import FolderCaptionsChoice
from tread_bench.data.image_folder.listing import listed
from tread_bench.data.images.family import ImageOptions, image_family


class ImageFolderData(ImageOptions):
    """Image files in local class folders (`train/cat/1.jpg`); folders called by whole numbers have these as labels."""

    splits: ClassVar[str] = "tread_bench.data.image_folder.source:folder_splits"

    name: Literal["image_folder"] = "image_folder"
    train: tuple[str, ...] = Field(
        min_length=1, description="folders, or globs of folders, with a folder of images for each class"
    )
    held_out: tuple[str, ...] = Field(
        (), description="the same with the held-out images; empty: every tenth training image is held out"
    )
    captions: FolderCaptionsChoice | None = Field(
        None, exclude_if=is_unused, description="captions in place of labels: an encoder, and where they are"
    )

    def paths(self, entries: Sequence[str]) -> list[str]:
        """Return the folders, each as a whole: it may have millions of files."""
        return [folder_name(path) for path in all_matches(entries)]

    def count(self, entries: Sequence[str]) -> int:
        """Return the number of image files in folders. Raises UserError."""
        return len(listed(entries).paths)


IMAGE_FOLDER = image_family(ImageFolderData)
