"""Rows of one family that follow a rule over several depths: TREAD's absolute rule against its relative one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from tread_bench.core.numbers.statistics import MeanInterval
from tread_bench.reports.rows import requested
from tread_bench.reports.rows.comparison import tested
from tread_bench.reports.rows.row import Row
from tread_bench.reports.text.sentences import say


class Line(NamedTuple):
    """The rows of one family that follow one rule, by number of blocks, with their difference to dense."""

    family: str
    rule: str
    points: list[tuple[Row, MeanInterval]]


def lines_of(rows: Sequence[Row]) -> list[Line]:
    """Rules that ran at two or more depths of a family."""
    # The rows of each rule, with their differences to dense.
    found: dict[tuple[str, str], list[tuple[Row, MeanInterval]]] = {}
    stems = {stem(row) for row in rows}
    for row in rows:
        difference = row.difference("fid")
        if row.spans and difference and not requested.is_guided(row.first):
            for rule in _rules(stem(row), stems):
                found.setdefault((row.first.family, rule), []).append((row, difference))

    # Those that have one row at each of several depths.
    lines = []
    for (family, name), points in sorted(found.items(), key=lambda item: item[0]):
        blocks = [row.blocks for row, _ in points]
        if len(set(blocks)) == len(blocks) > 1:
            lines.append(Line(family, name, sorted(points, key=lambda point: point[0].blocks)))
    return lines


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


def summary(rows: Sequence[Row]) -> str:
    """Return the two rules of a family compared, depth by depth; "" where no family has two rules."""
    lines = lines_of(rows)
    if len(lines) != 2 or lines[0].family != lines[1].family:
        return ""

    # Both rules at the depths that they share.
    a, b = ({row.blocks: row for row, _ in line.points} for line in lines)
    shared = [blocks for blocks in a if blocks in b]

    # Test where they give different routes.
    different = [blocks for blocks in shared if a[blocks] is not b[blocks]]
    tests = tested((a[blocks].scores["fid"], b[blocks].scores["fid"]) for blocks in different)
    by_depth = dict(zip(different, tests, strict=True))

    # A clause for each depth.
    names = (lines[0].rule, lines[1].rule)
    clauses = []
    for blocks in shared:
        clauses.append(say("depths", "at_depth", names=names, a=a[blocks], b=b[blocks], test=by_depth.get(blocks)))
    return say("depths", "summary", clauses=clauses) if clauses else ""
