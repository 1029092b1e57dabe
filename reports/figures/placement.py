"""Where the routes are, and the effect of each on FID."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from tread_bench.core.numbers.statistics import MeanInterval
from tread_bench.reports.claims.published import (
    placement_difference,
    placement_note,
    several_routes_note,
    stands_beside_published,
)
from tread_bench.reports.figures.bases import Basis
from tread_bench.reports.figures.drawing import estimated
from tread_bench.reports.figures.forest import Column, dot, forest, still, write
from tread_bench.reports.figures.panels import drawn_of
from tread_bench.reports.figures.picture import Picture, picture_of
from tread_bench.reports.figures.style import COLOURS, INK, MUTED, RULE, SURFACE, clean, marks_of
from tread_bench.reports.rows import requested
from tread_bench.reports.rows.architectures import by_architecture
from tread_bench.reports.rows.row import Row
from tread_bench.reports.text.numbers import decimals, number
from tread_bench.reports.text.numbers import words as in_words

_MOST = 30  # rows in the picture


class _Line(NamedTuple):
    """One row of the picture."""

    row: Row
    fid: MeanInterval | None  # at what the rows are compared at
    shown: MeanInterval | None  # the difference to dense where the run has any, else the FID itself
    text: str
    published: float | None


def route_placement(rows: Sequence[Row], bases: Sequence[Basis], suffix: str = "") -> list[Picture]:
    """Draw each route as a bar over the blocks, coloured by its FID difference to dense, beside its interval.

    A picture at equal training cost, where rows were compared so, and one at equal iterations.
    """
    # The rows of architectures with routes that lie at different places.
    placed = [row for row in rows if _is_placed(row)]
    parts = by_architecture(placed)
    parts = [part for part in parts if any(requested.is_plain_routing(row.first) for row in part)]
    most = max(map(_num_places, parts), default=0)
    if not most or (most == 1 and (len(parts) > 1 or any(_num_routed(part) > 1 for part in parts))):
        return []  # rows with the same routes differ in something else, which has its own picture

    # Their picture on each basis.
    placed = [row for part in parts for row in part]
    found: list[Basis | None] = [*bases]
    return [_picture(placed, basis, suffix) for basis in found or [None]]


def _picture(placed: Sequence[Row], basis: Basis | None, suffix: str) -> Picture:
    places = decimals(row.fid.mean for row in placed if row.fid)
    lines = [_line(row, basis, places) for row in placed]
    drawn, left_out = drawn_of(lines, lambda line: line.row, _MOST)
    parts = [list(part) for _, part in groupby(drawn, lambda line: line.row.group)]
    are_judged = basis is not None and not any(row.is_smoke for row in placed)
    routed = [line.row for line in drawn if line.row.spans]  # dense has no bar
    return picture_of(
        "route_placement", _figure(parts, basis), [_numbers(line, basis, places) for line in lines], suffix,
        basis=basis, drawn=drawn, left_out=left_out, are_judged=are_judged,
        has_best=basis is not None and any(map(basis.is_best, routed)), are_several=_are_several(lines),
        has_loss=any(requested.auxiliary(row.first) for row in placed), notes=_notes(lines, basis),
    )  # fmt: skip


def _are_several(lines: Sequence[_Line]) -> bool:
    return any(len(line.row.spans) > 1 for line in lines)


def _notes(lines: Sequence[_Line], basis: Basis | None) -> list[str]:
    """What was published of such routes."""
    notes = []
    is_beside = (basis is None or basis.is_published) and stands_beside_published(line.row for line in lines)
    if is_beside and _are_several(lines):
        notes.append(several_routes_note())
    if _has_published(lines):
        notes.append(placement_note())
    return notes


def _is_placed(row: Row) -> bool:
    """Whether routes and nothing else are what the row is about, or it is a control beside them."""
    is_beside = requested.stands_beside_routes(row.first)
    has_place = row.is_dense or is_beside or requested.is_plain_routing(row.first)
    return bool(row.fid and row.blocks and has_place and not requested.is_evaluated_only(row.first))


def _line(row: Row, basis: Basis | None, places: int) -> _Line:
    fid = basis.fids.get(id(row)) if basis else row.fid
    shown = basis.shown(row) if basis else row.fid
    nothing = "reference" if row.is_reference else "no pair"
    text = in_words(shown, places, signed=basis is not None, nothing=nothing)
    return _Line(row, fid, shown, text, placement_difference(row) if basis and basis.is_published else None)


def _num_places(rows: Sequence[Row]) -> int:
    return len({tuple(row.spans) for row in rows if row.spans})


def _num_routed(rows: Sequence[Row]) -> int:
    return sum(bool(row.spans) for row in rows)


def _has_published(lines: Sequence[_Line]) -> bool:
    return any(line.published is not None for line in lines)


def _numbers(line: _Line, basis: Basis | None, places: int) -> dict[str, str]:
    own = {"row": line.row.label, **estimated("FID", line.fid, places)}
    if basis:
        own |= estimated("FID difference", line.shown, places, signed=True)
        own["published"] = number(line.published, 2, True)
    return own


def _figure(parts: Sequence[Sequence[_Line]], basis: Basis | None) -> Figure:
    # Bars, intervals and words side by side, for each architecture; their intervals share an axis.
    lines = [line for part in parts for line in part]
    columns = [Column(0.55), Column(0.45), Column(2.0, f"{'ΔFID' if basis else 'FID'} [95 % interval]")]
    if _has_published(lines):
        columns.append(Column(1.0, "published ΔFID"))
    figure, panels = forest([[clean(line.row.short_label) for line in part] for part in parts], columns)
    for _, fids, *_ in panels[1:]:
        fids.sharex(panels[0][1])

    # A line for each row.
    scale = basis.scale([line.row for line in lines]) if basis else None
    for part, (bars, fids, texts, *published) in zip(parts, panels, strict=True):
        for y, line in enumerate(part):
            tone = basis.tone(line.row, scale) if basis and scale else COLOURS[0]
            with marks_of(line.row.label, bars, fids, texts, *published):
                _bar(bars, y, line.row, tone, is_best=basis is not None and basis.is_best(line.row))
                if line.shown:
                    dot(fids, y, line.shown.mean, line.shown.bounds, tone)
                write(texts, y, line.text)
                for column in published:
                    write(column, y, number(line.published, 2, True), MUTED)
        blocks = max(line.row.blocks for line in part)
        bars.set(xlim=(-0.6, blocks - 0.4), xticks=range(0, blocks, max(1, round(blocks / 12))), xlabel="block")
        bars.set_title(clean(part[0].row.architecture), pad=8)
        fids.margins(x=0.08)
        if basis:
            still(fids, 0)
    fids.set_xlabel(f"ΔFID at {basis.words}" if basis else "FID (left is better)")
    return figure


def _bar(axes: Axes, y: int, row: Row, tone: Any, is_best: bool) -> None:
    axes.add_patch(Rectangle((-0.5, y - 0.05), row.blocks, 0.1, color=RULE, linewidth=0))
    edge, width = (INK, 1.6) if is_best else (SURFACE, 0.8)
    for first, last in row.spans:
        place = (first - 0.5, y - 0.29), last - first + 1, 0.58
        axes.add_patch(Rectangle(*place, facecolor=tone, edgecolor=edge, linewidth=width))
