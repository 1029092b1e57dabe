"""The tests of docs/extending/data.md, run on a source with files that a test has written."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.shown_checks import failing
from tread_bench.core.describe.data_sources import DataFamily
from tread_bench.core.stored.data_paths import is_folder_name


def failing_of_data(
    family: DataFamily, folder: Path, options: Mapping[str, Any], changed: Mapping[str, Any] | None = None
) -> set[str]:
    """Return the names of the tests that fail.

    Args:
        folder: where copies of the files go.
        changed: options that lead to other content; a source without files needs none.
    """
    moved = copied(family, options, folder / "moved")
    return failing("data", DATA=family, OPTIONS=options, MOVED=moved, CHANGED=changed)


def copied(family: DataFamily, written: Mapping[str, Any], folder: Path) -> dict[str, Any] | None:
    """Return the options with copies of the files that they name; None if they name none.

    Where one place names several files, as a folder or a glob does, it becomes a folder with all of them.
    """
    options = family.options.model_validate({"name": family.name, **written})
    values = options.model_dump(mode="json")
    paths_of: dict[Any, list[str]] = {}
    for place, path in family.files(options, True):
        if place:
            paths_of.setdefault(place, []).append(path)
    for number, (place, paths) in enumerate(paths_of.items()):
        there = folder / str(number)
        above = os.path.commonpath(paths) if len(paths) > 1 else os.path.dirname(paths[0])
        for path in paths:
            copy = there / os.path.relpath(path, above)
            copy.parent.mkdir(parents=True, exist_ok=True)
            if is_folder_name(path):
                shutil.copytree(path, copy)
            else:
                shutil.copyfile(path, copy)
        *keys, last = place
        at = values
        for key in keys:
            at = at[key]
        at[last] = str(there if len(paths) > 1 else copy)
    return values if paths_of else None
