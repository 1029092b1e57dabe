"""The owner of a stored file: its cell, and the cell's configuration."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pydantic import JsonValue

from tread_bench.core.errors import UserError


class StrangerError(UserError):
    """A file that belongs to another cell or configuration than its place says."""


def cell_id(row: str, seed: int, row_key: str) -> str:
    """Return the id of a row's cell, which is also the name of its folder."""
    slug = re.sub(r"[^a-z0-9_.]+", "-", row.lower())[:48].strip("-_.")
    return f"{slug}-s{seed}-{row_key}"


def canonical_json(value: object) -> str:
    """Return the canonical text of a JSON value: sorted keys, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def compact_json(value: object) -> str:
    """Return the text of a JSON value without spaces; equal texts are equal values, with keys in the same order."""
    return json.dumps(value, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Identity:
    """A cell of a run: its id and the hash of its configuration."""

    cell: str
    config_sha256: str  # hash of the resolved cell's canonical JSON

    @classmethod
    def of(cls, cell: str, config: Mapping[str, JsonValue]) -> Self:
        """Create an identity from a cell's id and its resolved configuration, as in cell.json and records."""
        return cls(cell, hashlib.sha256(canonical_json(config).encode()).hexdigest())

    def stamp(self) -> dict[str, str]:
        """Return the stamp of a stored file."""
        return {"cell": self.cell, "config_sha256": self.config_sha256}

    def check(self, stamp: Mapping[str, str], path: Path) -> None:
        """Raise StrangerError if the `stamp` of the file at `path` does not match this cell."""
        check_cell(stamp.get("cell"), path, self.cell)
        if stamp.get("config_sha256") != self.config_sha256:
            raise StrangerError(
                f"{path} belongs to cell {self.cell} under another configuration: it was changed, or copied from "
                "another run. Put back what this run wrote, then run the same command again"
            )


def check_cell(owner: str | None, path: Path, cell_id: str, kind: str = "cell") -> None:
    """Raise StrangerError if the file at `path` belongs to another cell, or to another `kind` of owner."""
    if owner != cell_id:
        raise StrangerError(
            f"{path} belongs to {kind} {owner}, not to {cell_id}: files were exchanged or copied. Put each back where "
            "it was, then run the same command again"
        )
