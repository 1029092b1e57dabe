"""Files that look like another layout than the one that a suite names, by their names and what is beside them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from tread_bench.core.stored.data_paths import entries_below, folder_name, matches, named_where_unreadable
from tread_bench.data.latents.layouts import LAYOUTS, Has
from tread_bench.data.latents.trees import Archive

if TYPE_CHECKING:
    from tread_bench.data.latents.family import LatentsData

ARCHIVE = ".zip"


def layout_problems(options: LatentsData, entries: Iterable[str]) -> Iterator[str]:
    """Yield a message for each entry that names files of another layout. Raises UserError where it cannot be read."""
    for entry in entries:
        found = filter(None, (other_layout(options, path) for path in matches(entry)))
        yield from islice(found, 1)


def other_layout(options: LatentsData, path: str) -> str:
    """Return a message where files look like those of other layouts, and none like one of the options' layout.

    Args:
        path: a file, a folder or a zip archive.

    Raises:
        UserError: it cannot be read.
    """
    if not os.path.exists(path):
        return ""
    has = _beside(options, path)
    message = ""
    with named_where_unreadable(path):
        for where, name in _files(path):
            found = [layout.name for layout in LAYOUTS.values() if layout.looks(name, has)]
            if options.layout in found:
                return ""
            if found and not message:
                others = " or ".join(found)
                rule = f"looks like layout {others}, and data.layout is {options.layout}"
                message = f"{where} {rule}; set data.layout: {others}"
    return message


def _files(path: str) -> Iterator[tuple[str, str]]:
    """The place of every file, for messages, and its name below the path."""
    if os.path.isdir(path):
        base = folder_name(path)
        yield from ((entry.path, entry.path.removeprefix(base)) for entry in entries_below(base))
    elif path.endswith(ARCHIVE):
        archive = Archive(path)
        yield from ((archive.where(name), name) for name in archive.names(""))
    else:
        yield path, os.path.basename(path)


def _beside(options: LatentsData, path: str) -> Has:
    """Whether a file of a name that the options do not read is in the folder or archive, or beside the file."""
    read = {os.path.basename(value) for value in (options.scale, options.shift) if isinstance(value, str)}
    if path.endswith(ARCHIVE):
        names = {name for _, name in _files(path)}
        return lambda name: name in names - read
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    return lambda name: name not in read and os.path.exists(os.path.join(folder, name))
