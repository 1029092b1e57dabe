"""The grids of generated images that a page shows."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path

from tread_bench.reports.comparison import Row

SAMPLE_BUDGET_BYTES = 250_000  # of all embedded sample grids together, so that the page can be mailed
_PNG = b"\x89PNG\r\n\x1a\n"


def sample_grids(rows: Sequence[Row], run_dir: Path) -> list[dict[str, str]]:
    """One grid per row: first seed, highest iteration, as a data URI while the budget lasts."""
    found = []
    left = SAMPLE_BUDGET_BYTES
    for row in rows:
        # The grid of the row's first seed that has one.
        record = next((r for r in row.done if r.last and r.last.samples), None)
        if record is None or record.last is None:
            continue
        picture = _grid(run_dir / "cells", f"{record.cell}/{record.last.samples}", record.last.samples_sha256)

        # Embed it while the budget lasts.
        why = ""
        if not picture:
            why = "not found, or changed since its cell wrote it"
        elif len(picture) > left:
            why = "left out to keep this page small"
        else:
            left -= len(picture)
        found.append(
            {
                "row": row.label,
                "about": f"seed {record.seed}, iteration {record.last.iteration:,}",
                "uri": "" if why else f"data:image/png;base64,{base64.b64encode(picture).decode()}",
                "why": f"cells/{record.cell}/{record.last.samples}: {why}",
            }
        )
    return found


def _grid(cells: Path, name: str, sha256: str) -> bytes:
    """The grid of samples; None if it is missing, outside the cells' folder, not a PNG, or not the recorded one.

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
