"""Image files below folders, and their classes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from tread_bench.core.errors import UserError
from tread_bench.core.stored.data_paths import all_matches, entries_below, named_where_unreadable
from tread_bench.data.class_folders import class_labels, class_names

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")


@dataclass(frozen=True)
class Listing:
    """Image files of one split, folder by folder, by names.

    Args:
        folders: of the split.
        paths: of the image files.
        names: of the image files, below their folder.
        class_of: for each of them, the name of its class; "" where it has none.
    """

    folders: list[str]
    paths: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    class_of: list[str] = field(default_factory=list)

    @property
    def classes(self) -> dict[str, int]:
        """Label of each class, by its name. Raises UserError; see `class_labels`."""
        return class_labels(filter(None, self.class_of))


def listed(entries: Sequence[str], reads_labels: bool = False) -> Listing:
    """List the image files in folders and below; links are followed.

    Args:
        reads_labels: whether labels in a `dataset.json` are read; without them such images have no class.

    Raises:
        UserError: a folder does not exist, cannot be read, or holds the splits of a data set; or its `dataset.json`
            has no usable labels.
    """
    found = Listing(all_matches(entries))
    for folder in found.folders:
        if not os.path.isdir(folder):
            wrong = "not a folder" if os.path.exists(folder) else "no such folder"
            unpack = "; unpack it" if folder.lower().endswith(".zip") else ""
            raise UserError(f"{folder}: {wrong}{unpack}; name one that has images in it or below")
        with named_where_unreadable(folder):
            root = os.path.join(folder, "")
            paths = [entry.path for entry in entries_below(root) if entry.name.lower().endswith(SUFFIXES)]
        names = [path.removeprefix(root) for path in paths]
        found.paths.extend(paths)
        found.names.extend(names)
        found.class_of.extend(class_names(folder, names, reads_labels))
    return found
