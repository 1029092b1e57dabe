"""The grids of generated images, and of decoded training latents, that a page shows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tread_bench.reports.rows.row import Row

SAMPLE_BUDGET_BYTES = 250_000  # of all embedded sample grids together, so that the page can be mailed
CAPTION_CHARACTERS = 120  # that are shown of each
_PNG = b"\x89PNG\r\n\x1a\n"


class Grid(NamedTuple):
    """A grid of images: its row, if it is one's, what it is, its path below the cells, and its hash.

    Of one that is shown the page has its PNG, of any other why it is not. `captions` are those that its images were
    generated for, in order, shortened.
    """

    row: str
    about: str
    path: str
    sha256: str
    png: bytes = b""
    why: str = ""
    captions: tuple[str, ...] = ()


def sample_grids(rows: Sequence[Row], run_dir: Path) -> list[Grid]:
    """Decoded training latents, each set once, and one grid per row: first seed, highest iteration.

    They are shown while the budget lasts.
    """
    found = []
    left = SAMPLE_BUDGET_BYTES
    for grid in (*_of_data(rows), *_of_rows(rows)):
        png = _png(run_dir / "cells", grid.path, grid.sha256)
        if not png:
            found.append(grid._replace(why="not found, or changed since its cell wrote it"))
        elif len(png) > left:
            found.append(grid._replace(why="left out to keep this page small"))
        else:
            left -= len(png)
            found.append(grid._replace(png=png))
    return found


def _of_data(rows: Sequence[Row]) -> Iterator[Grid]:
    """Decoded training latents; cells that wrote the same picture share one."""
    seen = set()
    for record in (record for row in rows for record in row.done):
        last = record.last
        if last is not None and last.real_samples and last.real_samples_sha256 not in seen:
            seen.add(last.real_samples_sha256)
            path = f"{record.cell}/{last.real_samples}"
            yield Grid("", "training latents, decoded", path, last.real_samples_sha256)


def _of_rows(rows: Sequence[Row]) -> Iterator[Grid]:
    """Of every row the samples of its first seed that has some."""
    for row in rows:
        record = next((r for r in row.done if r.last and r.last.samples), None)
        if record is not None and record.last is not None:
            about = f"seed {record.seed}, iteration {record.last.iteration:,}"
            path = f"{record.cell}/{record.last.samples}"
            captions = tuple(_shortened(caption) for caption in record.last.captions)
            yield Grid(row.label, about, path, record.last.samples_sha256, captions=captions)


def _shortened(caption: str) -> str:
    """A caption that fits below a grid; a network may have read more of it, or less."""
    return caption if len(caption) <= CAPTION_CHARACTERS else f"{caption[:CAPTION_CHARACTERS]}…"


def _png(cells: Path, name: str, sha256: str) -> bytes:
    """The grid of samples; empty if it is missing, outside the cells' folder, not a PNG, or not the recorded one.

    Of a file that is too large for the page, only enough is read to see that.
    """
    try:
        path = (cells / name).resolve()
        if not path.is_relative_to(cells.resolve()) or not path.is_file():
            return b""
        with path.open("rb") as file:
            content = file.read(SAMPLE_BUDGET_BYTES + 1)
    except (OSError, RuntimeError, ValueError):  # a name that no file can have, a loop of links
        return b""
    is_whole = len(content) <= SAMPLE_BUDGET_BYTES
    if is_whole and sha256 and hashlib.sha256(content).hexdigest() != sha256:
        return b""
    return content if content.startswith(_PNG) else b""
