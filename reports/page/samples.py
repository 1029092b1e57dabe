"""Generated and real images that a page shows: the first of each grid that cells wrote, as WebP."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from PIL import Image

from tread_bench.reports.page.document import SMOOTH
from tread_bench.reports.row import Row

SAMPLE_BUDGET_BYTES = 480_000  # of all images together, so that the page can be mailed
CAPTION_CHARACTERS = 120  # that are shown of each
_COLUMNS = 10  # of a grid, with one pixel between them
_LOSSLESS_SIDE = 32  # pixels, up to which artefacts of compression are seen
_QUALITY = 90
# Images of each row and the most pixels of their side: the first that is within the budget.
_SIZES = ((8, 256), (8, 128), (4, 128), (4, 96), (2, 96), (2, 64))


class Grid(NamedTuple):
    """A grid of images: its row, if it is one's, what it is, its path below the cells, and its hash.

    Of one that is shown the page has its first images as WebP, of any other why it is not. `captions` are those that
    they were generated for, in order, shortened.
    """

    row: str
    about: str
    path: str
    sha256: str
    columns: int = _COLUMNS
    captions: Sequence[str] = ()
    images: Sequence[bytes] = ()
    why: str = ""


class Shown(NamedTuple):
    """Grids with their images, whether these are scaled smoothly, and how they were reduced and compressed."""

    grids: list[Grid]
    is_smooth: bool
    note: str


def sample_grids(rows: Sequence[Row], run_dir: Path) -> Shown:
    """The first images of real data, each set once, and of one grid per row: first seed, highest iteration."""
    grids = [*_of_data(rows), *_of_rows(rows)]
    tiles = [_tiles(run_dir / "cells", grid) for grid in grids]
    native = max((images[0].width for images in tiles if images), default=0)

    # Small images without loss where the budget allows it; all others compressed, as many and as large as it allows.
    sizes = [(*size, False) for size in _SIZES]
    if native <= _LOSSLESS_SIDE:
        sizes.insert(0, (*_SIZES[0], True))
    for count, side, is_lossless in sizes:
        encoded = _encoded(tiles, count, side, is_lossless)
        if len(encoded) == len(tiles):
            break

    # What is shown of each grid, and what a reader should know of it.
    shown = []
    for k, grid in enumerate(grids):
        if k >= len(encoded):
            shown.append(grid._replace(why="left out to keep this page small"))
        elif not encoded[k]:
            shown.append(grid._replace(why="not found, or changed since its cell wrote it"))
        else:
            shown.append(grid._replace(images=encoded[k], captions=grid.captions[: len(encoded[k])]))
    reduced = f", reduced from {native} to {side} pixels" if native > side else ""
    compressed = "" if is_lossless else ", compressed"
    note = (
        f"The first {count} images of each grid are shown{reduced}{compressed}; the run folder has all, below cells/."
    )
    return Shown(shown, native >= SMOOTH, note)


def _of_data(rows: Sequence[Row]) -> Iterator[Grid]:
    """Images of the training data; cells that wrote the same picture share one."""
    seen = set()
    for record in (record for row in rows for record in row.done):
        last = record.last
        if last is not None and last.real_samples and last.real_samples_sha256 not in seen:
            seen.add(last.real_samples_sha256)
            path = f"{record.cell}/{last.real_samples}"
            yield Grid("", "training images", path, last.real_samples_sha256)


def _of_rows(rows: Sequence[Row]) -> Iterator[Grid]:
    """Of every row the samples of its first seed that has some."""
    for row in rows:
        record = next((r for r in row.done if r.last and r.last.samples), None)
        if record is not None and record.last is not None:
            about = f"seed {record.seed}, iteration {record.last.iteration:,}"
            path = f"{record.cell}/{record.last.samples}"
            columns = min(_COLUMNS, record.last.num_samples or _COLUMNS)
            captions = []
            for caption in record.last.captions:  # of which a network may have read more, or less
                is_long = len(caption) > CAPTION_CHARACTERS
                captions.append(f"{caption[:CAPTION_CHARACTERS]}…" if is_long else caption)
            yield Grid(row.name, about, path, record.last.samples_sha256, columns, captions)


def _tiles(cells: Path, grid: Grid) -> list[Image.Image]:
    """The images in the first row of a grid; none if it is missing, outside the cells, or not the recorded one."""
    try:
        path = (cells / grid.path).resolve()
        if not path.is_relative_to(cells.resolve()) or not path.is_file():
            return []
        content = path.read_bytes()
        if grid.sha256 and hashlib.sha256(content).hexdigest() != grid.sha256:
            return []
        with Image.open(BytesIO(content), formats=["PNG"]) as picture:
            side = (picture.width + 1) // grid.columns - 1
            left = range(0, picture.width, side + 1)[: _SIZES[0][0]]
            return [picture.crop((x, 0, x + side, side)) for x in left]
    except (OSError, RuntimeError, ValueError):  # a name that no file can have, a loop of links, not a picture
        return []


def _encoded(tiles: Sequence[Sequence[Image.Image]], count: int, side: int, is_lossless: bool) -> list[list[bytes]]:
    """The first images of each grid as WebP, of so many grids as the budget allows."""
    encoded: list[list[bytes]] = []
    left = SAMPLE_BUDGET_BYTES
    for images in tiles:
        of_grid = []
        for image in images[:count]:
            buffer = BytesIO()
            smaller = image.resize((side, side), Image.Resampling.LANCZOS) if image.width > side else image
            smaller.save(buffer, "WEBP", lossless=is_lossless, quality=_QUALITY)
            of_grid.append(buffer.getvalue())
            left -= len(of_grid[-1])
        if left < 0:
            break
        encoded.append(of_grid)
    return encoded
