"""Published figures that a run may be read beside: another protocol, so beside and never among."""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files

from reports.comparison import Row

PLACEMENT_BLOCKS = 12  # DiT-B/2, where TREAD's Figure 8 was measured


@cache
def _table() -> dict[tuple[str, str], float]:
    """(table, routes) -> value. Read off the figures of Krause et al. (arXiv 2501.04765)."""
    lines = files("reports").joinpath("published.csv").read_text(encoding="utf-8").splitlines()
    return {(line["table"], line["routes"]): float(line["value"]) for line in csv.DictReader(lines)}


def placement_difference(row: Row) -> float | None:
    """TREAD Figure 8: FID of that route minus dense, DiT-B/2 on ImageNet-256; None where it has no such route."""
    if row.first.num_blocks != PLACEMENT_BLOCKS:
        return None
    return _table().get(("TREAD Figure 8", row.first.routes)) if row.first.routes else None


def placement_note() -> str:
    """Where the figures come from and why they do not compare."""
    table = _table()
    return (
        "Published: TREAD (Krause et al. 2025), Figure 8, read off the picture: DiT-B/2, ImageNet-256, another "
        f"protocol, no error bars, dense {table['TREAD Figure 8', '']:g}. After 400K iterations its Table 2 gives "
        f"{table['TREAD Table 2', '']:g} dense and {table['TREAD Table 2', '2:8@0.5']:g} with 2:8@0.5."
    )
