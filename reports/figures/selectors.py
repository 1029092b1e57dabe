"""How much it matters which tokens bypass: FID difference to dense, by selector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tread_bench.core.describe.selectors import DEFAULT_SELECTOR
from tread_bench.core.numbers.statistics import MeanInterval
from tread_bench.reports.figures.drawing import estimated, grid
from tread_bench.reports.figures.forest import dot
from tread_bench.reports.figures.picture import Picture, picture_of
from tread_bench.reports.figures.style import COLOURS, MARKERS, MUTED, clean, marks_of
from tread_bench.reports.rows import requested
from tread_bench.reports.rows.row import Row, by_key
from tread_bench.reports.text.numbers import decimals

_COLUMNS = 4


class _Point(NamedTuple):
    row: Row
    difference: MeanInterval


def selector_differences(rows: Sequence[Row], suffix: str = "") -> Picture | None:
    """Draw one panel per architecture, selectors from top to bottom, routes by colour.

    Rows of a method and route that have one selector alone are left out: a method may choose its tokens itself.
    """
    points = [_Point(row, difference) for row in rows if row.spans and (difference := row.difference("fid"))]
    alike = by_key(points, lambda point: _but_for_the_selector(point.row))
    points = [point for point in points if len(_selectors(alike[_but_for_the_selector(point.row)])) > 1]
    if not points:
        return None
    places = decimals(row.fid.mean for row in rows if row.fid)
    numbers = [
        {
            "row": row.label,
            "selector": row.first.selector,
            "routes": row.first.routes,
            **estimated("FID difference to dense", difference, places, signed=True),
            "seeds": str(difference.n),
        }
        for row, difference in points
    ]
    return picture_of("selectors", _figure(points), numbers, suffix, points=points, places=places)


def _but_for_the_selector(row: Row) -> tuple[str, str, str]:
    return row.group.backbone, requested.method(row.first), row.first.routes


def _selectors(points: Sequence[_Point]) -> set[str]:
    return {point.row.first.selector for point in points}


def _figure(points: Sequence[_Point]) -> Figure:
    backbones = list(dict.fromkeys(point.row.group.backbone for point in points))
    names = {point.row.first.selector for point in points}
    selectors = sorted(names, key=lambda name: (name != DEFAULT_SELECTOR, name))
    routes = list(dict.fromkeys(point.row.first.routes for point in points))
    high = 0.3 * len(selectors) + 0.75
    wide = max(4.6, 2.4 * min(_COLUMNS, len(backbones)))
    figure, panels = grid(len(backbones), high, below=0.3, wide=wide, columns=_COLUMNS, sharey=True, sharex=True)
    for backbone, axes in zip(backbones, panels, strict=True):
        _panel(axes, [p for p in points if p.row.group.backbone == backbone], selectors, routes)
    figure.supxlabel("FID difference to dense (left is better)", color=MUTED, size=9)
    if len(routes) > 1:
        found = [axes.get_legend_handles_labels() for axes in figure.axes]
        handles = {name: handle for handles, names in found for handle, name in zip(handles, names, strict=True)}
        figure.legend(handles.values(), handles.keys(), loc="outside right upper")
    return figure


def _panel(axes: Axes, points: Sequence[_Point], selectors: Sequence[str], routes: Sequence[str]) -> None:
    for row, difference in points:
        which = routes.index(row.first.routes)
        y = selectors.index(row.first.selector) + 0.16 * (which - (len(routes) - 1) / 2)
        colour = COLOURS[which % len(COLOURS)]
        marker = MARKERS[which % len(MARKERS)] if len(routes) > 1 else "o"
        with marks_of(row.label, axes):
            dot(axes, y, difference.mean, difference.bounds, colour, marker, label=clean(row.first.routes))
    axes.axvline(0, color=MUTED, linewidth=1, zorder=0.5)
    axes.set_title(clean(points[0].row.architecture, 24))
    axes.set_yticks(range(len(selectors)), selectors)
    axes.set_ylim(len(selectors) - 0.5, -0.5)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="y", visible=False)
