"""Files that look like another layout than the one that a suite names, by their names and what is beside them."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from itertools import islice

from tread_bench.core.describe.data_sources import Factor
from tread_bench.core.stored.data_paths import entries_below, folder_name, matches, named_where_unreadable
from tread_bench.data.latents.layouts import LAYOUTS, Has
from tread_bench.data.latents.trees import Archive

ARCHIVE = ".zip"


def layout_problems(layout: str, factors: Collection[Factor | None], entries: Iterable[str]) -> Iterator[str]:
    """Yield a message for each entry that names files of another layout. Raises UserError where it cannot be read."""
    for entry in entries:
        found = filter(None, (other_layout(layout, factors, path) for path in matches(entry)))
        yield from islice(found, 1)


def other_layout(layout: str, factors: Collection[Factor | None], path: str) -> str:
    """Return a message where files look like those of other layouts than `layout`, and none like one of it.

    Args:
        factors: scale and shift, which may be files that are no latents.
        path: a file, a folder or a zip archive.

    Raises:
        UserError: it cannot be read.
    """
    if not os.path.exists(path):
        return ""
    has = _beside(factors, path)
    message = ""
    with named_where_unreadable(path):
        for where, name in _files(path):
            found = [known.name for known in LAYOUTS.values() if known.looks(name, has)]
            if layout in found:
                return ""
            if found and not message:
                others = " or ".join(found)
                rule = f"looks like layout {others}, and data.layout is {layout}"
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


def _beside(factors: Collection[Factor | None], path: str) -> Has:
    """Whether a file of a name that is no factor's is in the folder or archive, or beside the file."""
    read = {os.path.basename(value) for value in factors if isinstance(value, str)}
    if path.endswith(ARCHIVE):
        names = {name for _, name in _files(path)}
        return lambda name: name in names - read
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    return lambda name: name not in read and os.path.exists(os.path.join(folder, name))
