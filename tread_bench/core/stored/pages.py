"""What the head of a page says of the files that were written with it."""

from __future__ import annotations

import re
from pathlib import Path

from tread_bench.core.stored.foreign import open_file

_HEAD_BYTES = 4096
_FIGURES = re.compile(r'<meta name="figures" content="([^"]*)">')


def pictures_of(page: Path) -> list[str] | None:
    """Return the names of the pictures that were drawn with a page; None if it does not name them."""
    try:
        with open_file(page) as file:
            match = _FIGURES.search(file.read(_HEAD_BYTES).decode(errors="replace"))
    except OSError:
        return None
    return match.group(1).split() if match else None
