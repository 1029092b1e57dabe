"""Rows of one family that follow a rule over several depths: TREAD's absolute rule against its relative one."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pandas as pd

from tread_bench.reports import requested
from tread_bench.reports.differences import ITERATIONS
from tread_bench.reports.figure import Figure
from tread_bench.reports.row import Row


def figure(rows: Sequence[Row]) -> Figure:
    """FID difference to the dense row of the same depth, a line per rule that ran at several depths of a family."""
    stems = {stem(row) for row in rows}
    lines = []
    for row in rows:
        difference = row.difference(ITERATIONS)
        if row.spans and difference and not requested.is_guided(row.first):
            low, high = difference.bounds or (None, None)
            for rule in _rules(stem(row), stems):
                of_row = (row.name, row.first.family, rule, row.blocks, row.first.routes)
                lines.append((*of_row, difference.mean, low, high, difference.n))
    columns = ["row", "family", "rule", "blocks", "routes", "difference", "low", "high", "seeds"]
    found = pd.DataFrame(lines, columns=columns)
    each = found.groupby(["family", "rule"]).blocks
    is_line = (each.transform("nunique") == each.transform("size")) & (each.transform("nunique") > 1)
    return Figure(
        name="depths",
        title="Routes over depths",
        caption="Each row against the dense row of its own depth, paired over seeds at equal iterations, with 95 % t "
        "intervals; FIDs of different depths are not compared with each other. A rule is a row of the suite.",
        lines=found[is_line],
        x="blocks",
        y="difference",
        hue="rule",
        panel="family",
        low="low",
        high="high",
        still=0.0,
        extra={"routes": "routes"},
        titles={"difference": "ΔFID to own dense"},
    )  # fmt: skip


def _rules(name: str, stems: set[str]) -> list[str]:
    """The row's rule; of a row where two rules mean the same blocks, "absolute-relative", both."""
    parts = re.split(r"[-+_]", name)
    return parts if len(parts) > 1 and stems.issuperset(parts) else [name]


def stem(row: Row) -> str:
    """Return the row's name without the depth that a matrix or its author added: "absolute" for "absolute depth=8"."""
    name = row.stem
    depth = re.search(r"\bdepth (\d+)", row.group.backbone)
    numbers = {str(row.blocks), *([depth[1]] if depth else [])}
    return re.sub(rf"[-_]?(depth|blocks|d|l)?[-_]?(?<!\d)({'|'.join(numbers)})(?!\d)", "", name) or name
