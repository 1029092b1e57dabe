"""The names of cells, and whose a stored file is."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tread_bench.core.errors import UserError


def cell_id(row: str, seed: int, row_key: str) -> str:
    """Return the id of a row's cell, which is also the name of its folder.

    Args:
        row_key: hash of the resolved configuration.
    """
    slug = re.sub(r"[^a-z0-9_.]+", "-", row.lower())[:48].strip("-_.")
    return f"{slug}-s{seed}-{row_key}"


def canonical_json(value: object) -> str:
    """Return the canonical text of a JSON value: sorted keys, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def check_cell(owner: str | None, path: Path, cell_id: str, kind: str = "cell") -> None:
    """Raise UserError if the file at `path` belongs to another cell, or to another `kind` of owner."""
    if owner != cell_id:
        raise UserError(
            f"{path} belongs to {kind} {owner}, not to {cell_id}: files were exchanged or copied. Put each back where "
            "it was, then run the same command again"
        )
