"""Whose a stored file is: the cell, its configuration and, where there is one, its iteration."""

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

_STAMP = ("cell", "config_sha256", "iteration")


class StrangerError(UserError):
    """A file in the place of one that belongs to another cell, another configuration or another iteration."""


def cell_id(row: str, seed: int, row_key: str) -> str:
    """The id of a row's cell, which is also the name of its folder."""
    slug = re.sub(r"[^a-z0-9_.]+", "-", row.lower())[:48].strip("-_.")
    return f"{slug}-s{seed}-{row_key}"


def canonical_json(value: object) -> str:
    """The one text of a JSON value: sorted keys, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


@dataclass(frozen=True, slots=True)
class Identity:
    """A cell of a run: its id and the hash of its configuration."""

    cell: str
    config_sha256: str  # of the canonical JSON of the resolved cell

    @classmethod
    def of(cls, cell: str, config: Mapping[str, JsonValue]) -> Self:
        """From a cell's id and its resolved configuration, as cell.json and records hold them."""
        return cls(cell, hashlib.sha256(canonical_json(config).encode()).hexdigest())

    def stamp(self, iteration: int | None = None) -> dict[str, str]:
        """What a stored file says of itself: texts, since the metadata of safetensors are texts."""
        about = {"cell": self.cell, "config_sha256": self.config_sha256}
        return about if iteration is None else {**about, "iteration": str(iteration)}

    def check(self, stamp: Mapping[str, str], path: Path, iteration: int | str | None = None) -> None:
        """Raises StrangerError where the file at `path` says with its `stamp` that it is not this cell's."""
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
    """As its name `step-000000008.safetensors` says it."""
    return checkpoint.stem.removeprefix("step-").lstrip("0")


def check_cell(owner: str | None, path: Path, cell_id: str, kind: str = "cell") -> None:
    """Raises StrangerError where the file at `path` is not that cell's, or that of another `kind` of owner."""
    if owner != cell_id:
        raise StrangerError(
            f"{path} belongs to {kind} {owner}, not to {cell_id}: files were exchanged or copied. Put each back where "
            "it was, then run the same command again"
        )


def stamp_of(path: Path) -> dict[str, str]:
    """What a safetensors file says of itself; {} where an older version wrote it, or it cannot be read. No torch."""
    try:
        with safe_open(path, "np") as file:
            return read_stamp(file.metadata())
    except (OSError, SafetensorError):
        return {}


def read_stamp(metadata: Mapping[str, str] | None) -> dict[str, str]:
    """The stamp among a file's metadata."""
    return {key: value for key, value in (metadata or {}).items() if key in _STAMP}
