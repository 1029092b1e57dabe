"""The tests of docs/extending/data.md, run on a source with files that a test has written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.shown_checks import failing
from tread_bench.core.describe.data_sources import DataFamily


def failing_of_data(
    family: DataFamily, folder: Path, options: Mapping[str, Any], changed: Mapping[str, Any] | None = None
) -> set[str]:
    """Return the names of the tests that fail.

    Args:
        folder: where all files are that the options name.
        changed: options that lead to other content; a source without files needs none.
    """
    moved, written = folder.with_name(f"{folder.name}-moved"), json.dumps(options)
    if str(folder) not in written:
        return failing("data", DATA=family, OPTIONS=options, MOVED=None, CHANGED=changed)
    shutil.copytree(folder, moved, dirs_exist_ok=True)
    there = json.loads(written.replace(str(folder), str(moved)))
    return failing("data", DATA=family, OPTIONS=options, MOVED=there, CHANGED=changed)
