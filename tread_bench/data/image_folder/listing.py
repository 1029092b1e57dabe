"""Image files below folders and the classes that their folders say, by names alone."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from tread_bench.core.errors import UserError
from tread_bench.core.stored.data_paths import all_matches, entries_below, named_where_unreadable

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")


@dataclass(frozen=True)
class Listing:
    """Image files of one split, folder by folder, by names.

    Args:
        folders: of the split.
        paths: of the image files.
        names: of the image files, below their folder.
        class_of: for each of them, the name of the class folder that it is in; "" where it is in none.
        classes: names of the class folders, in order; one may be empty.
    """

    folders: list[str]
    paths: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    class_of: list[str] = field(default_factory=list)
    classes: list[str] = field(default_factory=list)


def listed(entries: Sequence[str]) -> Listing:
    """List the image files in folders and below; names that begin with a dot are left out, links are followed.

    Raises:
        UserError: a folder does not exist or cannot be read.
    """
    found = Listing(all_matches(entries))
    classes: set[str] = set()
    for folder in found.folders:
        if not os.path.isdir(folder):
            wrong = "not a folder" if os.path.exists(folder) else "no such folder"
            raise UserError(f"{folder}: {wrong}; name one that has images in it or below")
        with named_where_unreadable(folder):
            classes.update(_folders_in(folder))
            root = os.path.join(folder, "")
            for entry in entries_below(root):
                if entry.name.lower().endswith(SUFFIXES):
                    name = entry.path.removeprefix(root)
                    first, separator, _ = name.partition(os.sep)
                    found.paths.append(entry.path)
                    found.names.append(name)
                    found.class_of.append(first if separator else "")
    found.classes.extend(sorted(classes))
    return found


def _folders_in(folder: str) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries if entry.is_dir() and not entry.name.startswith(".")]
