"""What the head of a page says of the files that were written with it."""

from __future__ import annotations

import re
from pathlib import Path

_HEAD_CHARACTERS = 4096
_FIGURES = re.compile(r'<meta name="figures" content="([^"]*)">')


def pictures_of(page: Path) -> list[str] | None:
    """Return the names of the pictures that were drawn with a page; None if it does not name them."""
    try:
        with open(page, encoding="utf-8", errors="replace") as file:
            match = _FIGURES.search(file.read(_HEAD_CHARACTERS))
    except OSError:
        return None
    return match.group(1).split() if match else None
