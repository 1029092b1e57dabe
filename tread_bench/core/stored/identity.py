"""The owner of a stored file: its cell, the cell's configuration and, if applicable, the iteration."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pydantic import JsonValue
from safetensors import SafetensorError, safe_open

from tread_bench.core.errors import UserError

_OWNER = "owner"  # key of the metadata of safetensors: of several, their order would differ from call to call


class StrangerError(UserError):
    """A file that belongs to another cell, configuration or iteration than its place says."""


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

    def stamp(self, iteration: int | None = None) -> dict[str, str]:
        """Return the stamp of a stored file."""
        about = {"cell": self.cell, "config_sha256": self.config_sha256}
        return about if iteration is None else {**about, "iteration": str(iteration)}

    def metadata(self, iteration: int) -> dict[str, str]:
        """Return the stamp as metadata of a safetensors file."""
        return {_OWNER: canonical_json(self.stamp(iteration))}

    def check(self, stamp: Mapping[str, str], path: Path, iteration: int | str | None = None) -> None:
        """Raise StrangerError if the `stamp` of the file at `path` does not match this cell."""
        check_cell(stamp.get("cell"), path, self.cell)
        if stamp.get("config_sha256") != self.config_sha256:
            raise StrangerError(
                f"{path} belongs to cell {self.cell} under another configuration: it was changed, or copied from "
                "another run. Put back what this run wrote, then run the same command again"
            )
        if iteration is not None and (held := stamp.get("iteration")) != str(iteration):
            raise StrangerError(
                f"{path} holds iteration {held}, not {iteration}: it was renamed or copied. Put back what this run "
                "wrote, then run the same command again"
            )


def iteration_of(checkpoint: Path) -> str:
    """Return the iteration in a checkpoint's name, such as `step-000000008.safetensors`."""
    return checkpoint.stem.removeprefix("step-").lstrip("0")


def check_cell(owner: str | None, path: Path, cell_id: str, kind: str = "cell") -> None:
    """Raise StrangerError if the file at `path` belongs to another cell, or to another `kind` of owner."""
    if owner != cell_id:
        raise StrangerError(
            f"{path} belongs to {kind} {owner}, not to {cell_id}: files were exchanged or copied. Put each back where "
            "it was, then run the same command again"
        )


def stamp_of(path: Path) -> dict[str, str]:
    """Return a safetensors file's stamp; {} if it has none, or it cannot be read. No torch."""
    try:
        with safe_open(path, "np") as file:
            return read_stamp(file.metadata())
    except (OSError, SafetensorError):
        return {}


def read_stamp(metadata: Mapping[str, str] | None) -> dict[str, str]:
    """Return the stamp in a file's metadata; {} if it has none, or another program's."""
    try:
        stamp = json.loads((metadata or {}).get(_OWNER, "{}"))
    except ValueError:
        return {}
    return stamp if isinstance(stamp, dict) else {}
