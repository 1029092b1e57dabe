"""What routing does to each architecture, against its own dense row: quality and speed side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.figure import Figure

from tread_bench.core.numbers.statistics import MeanInterval
from tread_bench.reports.claims.depths import lines_of as depth_lines
from tread_bench.reports.claims.published import gain_note, published_gain
from tread_bench.reports.figures.bases import Basis
from tread_bench.reports.figures.drawing import speed_ups
from tread_bench.reports.figures.forest import Column, dot, forest, speed_up, still, write
from tread_bench.reports.figures.picture import Picture, picture_of
from tread_bench.reports.figures.style import INK, MUTED, clean, marks_of
from tread_bench.reports.rows import requested
from tread_bench.reports.rows.architectures import by_architecture, what_differs
from tread_bench.reports.rows.row import Row
from tread_bench.reports.text.numbers import DASH, decimals, millions, number, words


class _Line(NamedTuple):
    """One routed row; `leads` marks the first of its architecture."""

    row: Row
    leads: bool
    difference: MeanInterval | None


def routing_gain(rows: Sequence[Row], bases: Sequence[Basis], suffix: str = "") -> list[Picture]:
    """Draw a forest plot over the routed rows of several architectures, with relative speed and the published gains.

    A picture at equal training cost, where rows were compared so, and one at equal iterations.
    """
    groups = {line.row.group for line in _lines(rows, None)}
    if len(groups) < 2 or (_kind(rows) == "architecture" and depth_lines(rows)):
        return []  # depths of one family have a picture of their own
    found: list[Basis | None] = [*bases]
    return [_picture(rows, basis, suffix) for basis in found or [None]]


def _picture(rows: Sequence[Row], basis: Basis | None, suffix: str) -> Picture:
    lines = _lines(rows, basis)
    places = decimals(row.fid.mean for row in rows if row.fid)
    is_published = _has_published(lines) and _is_published(basis)
    return picture_of(
        "routing_gain", _figure(lines, places, basis), [_numbers(line, rows, places, basis) for line in lines],
        suffix, basis=basis, is_open=True, lines=lines,
        kind=_kind(rows), apart=what_differs(rows), places=places,
        note=gain_note() if is_published else "",
    )  # fmt: skip


def _kind(rows: Sequence[Row]) -> str:
    """What the lines are called after."""
    return "family" if len({row.first.family for row in rows}) > 1 else what_differs(rows)


def _is_published(basis: Basis | None) -> bool:
    return basis is None or basis.is_published


def _lines(rows: Sequence[Row], basis: Basis | None) -> list[_Line]:
    lines = []
    for members in by_architecture(rows):
        routed = [row for row in members if not row.is_dense and not requested.is_evaluated_only(row.first)]
        lines += [_Line(row, row is routed[0], basis.shown(row) if basis else None) for row in routed]
    return lines


def _numbers(line: _Line, rows: Sequence[Row], places: int, basis: Basis | None) -> dict[str, str]:
    row = line.row
    dense = next((r for r in rows if r.is_dense and r.group == row.group), None)
    fids = [basis.fids.get(id(one)) if basis else one and one.fid for one in (dense, row)]
    return {
        "row": row.label,
        "parameters": millions(row.cost("params")),
        "FID, dense → routed": " → ".join(number(fid.mean if fid else None, places) for fid in fids),
        "difference [95 %]": words(line.difference, places),
        "seeds": str(line.difference.n) if line.difference else DASH,
        **speed_ups(row),
        **({"published, another protocol": _published(row)} if _is_published(basis) else {}),
    }


def _has_published(lines: Sequence[_Line]) -> bool:
    return any(published_gain(line.row) for line in lines)


def _published(row: Row) -> str:
    found = published_gain(row)
    if found is None:
        return DASH
    caveat = f"; dense: {found.caveat}" if found.caveat else ""
    return f"{number(found.difference, 2, True)} ({found.model}: {number(found.dense)} → {number(found.tread)}{caveat})"


def _figure(lines: Sequence[_Line], places: int, basis: Basis | None) -> Figure:
    # Intervals and speeds beside words, and architectures on the left of the names.
    is_published = _has_published(lines) and _is_published(basis)
    columns = [Column(0.58), Column(0.42), Column(2.0, "ΔFID [95 % interval]")]
    if is_published:
        columns.append(Column(1.0, "published ΔFID"))
    before = 0.1 + 0.085 * max(len(clean(line.row.architecture, 16)) for line in lines)
    names = [clean(line.row.short_label, 26) for line in lines]
    figure, (panels,) = forest([names], columns, before=before)
    fids, speed, differences, *published = panels

    # A line for each row.
    for y, line in enumerate(lines):
        with marks_of(line.row.label, *panels):
            if line.leads:
                fids.annotate(clean(line.row.architecture, 16), (0.01, y), size=10, va="center",
                              xycoords=("figure fraction", fids.transData))  # fmt: skip
            if line.difference:
                colour = basis.way(line.row) if basis else MUTED
                dot(fids, y, line.difference.mean, line.difference.bounds, colour)
            speed_up(speed, y, line.row)
            write(differences, y, words(line.difference, places), INK if line.difference else MUTED)
            found = published_gain(line.row)
            if published and found and line.leads:
                write(published[0], y, number(found.difference, 2, True), MUTED)
    still(fids, 0)
    still(speed, 1)
    at = f"\nat {basis.words} (left is better)" if basis else ""
    fids.set_xlabel(f"ΔFID to own dense{at}")
    speed.set_xlabel("speed-up")
    return figure
