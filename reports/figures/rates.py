"""FID against the share of tokens that bypasses a route, from dense at 0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tread_bench.core.describe.routes import parse_routes
from tread_bench.core.describe.selectors import DEFAULT_SELECTOR
from tread_bench.reports.figures.drawing import estimated, grid
from tread_bench.reports.figures.lines import Point, draw_line
from tread_bench.reports.figures.picture import Picture, picture_of
from tread_bench.reports.figures.style import MUTED, clean, looks
from tread_bench.reports.rows import requested
from tread_bench.reports.rows.row import Row
from tread_bench.reports.text.numbers import decimals

_MOST = 12  # lines in the picture


class Line(NamedTuple):
    """Rows that differ in their rate alone, by rate, after their dense row."""

    name: str
    architecture: str
    rows: list[tuple[float, Row]]


def rates(rows: Sequence[Row], suffix: str = "") -> Picture | None:
    """Draw a line per route, method and selector that ran at several rates."""
    lines = lines_of(rows)
    if not lines:
        return None
    places = decimals(row.fid.mean for line in lines for _, row in line.rows if row.fid)
    drawn = _first_by_rank(lines)
    numbers = [_numbers(line, rate, row, places) for line in lines for rate, row in line.rows]
    return picture_of(
        "rates", _figure(drawn), numbers, suffix, places=places, all=len(lines),
        drawn=[(_named(line), line.rows) for line in drawn],
    )  # fmt: skip


def lines_of(rows: Sequence[Row]) -> list[Line]:
    """Lines of two or more rates, each starting with the dense row that its rows are compared with, if that has an FID.

    Where rows are compared with several, a line is named by its own.
    """
    found: dict[tuple[str, str, tuple[str, ...]], list[tuple[float, Row]]] = {}
    for row in rows:
        used = {route.rate for route in parse_routes(row.first.routes)}
        if len(used) == 1 and row.fid and not requested.is_guided(row.first):
            key = (row.group.backbone, row.reference_label, _shared(row))
            found.setdefault(key, []).append((used.pop(), row))
    dense = {(row.group, row.short_label): row for row in rows if row.is_dense and row.fid}
    lines = []
    for (backbone, reference, shared), members in found.items():
        if len({rate for rate, _ in members}) > 1:
            beside = {other for of, other, _ in found if of == backbone}
            name = " ".join(filter(None, [*shared, f"beside {reference}" if len(beside) > 1 else ""]))
            ordered = sorted(members, key=lambda pair: pair[0])
            first = dense.get((ordered[0][1].group, reference))
            lines.append(Line(name, ordered[0][1].architecture, [*([(0.0, first)] if first else []), *ordered]))
    return lines


def _first_by_rank(lines: Sequence[Line]) -> list[Line]:
    """As many as can be told apart, those with the row of lowest FID, in their order."""

    def lowest(line: Line) -> float:
        return min(row.fid.mean for _, row in line.rows if row.fid and not row.is_dense)

    chosen = set(map(id, sorted(lines, key=lowest)[:_MOST]))
    return [line for line in lines if id(line) in chosen]


def _shared(row: Row) -> tuple[str, ...]:
    """What the rows of a line have in common: method, blocks, selector, schedule."""
    blocks = ",".join(f"{first}:{last}" for first, last in row.spans)
    selector = "" if row.first.selector == DEFAULT_SELECTOR else row.first.selector
    return requested.method(row.first), blocks, selector, requested.scheduled(row.first)


def _named(line: Line) -> str:
    return f"{line.architecture} {line.name}".lstrip()


def _numbers(line: Line, rate: float, row: Row, places: int) -> dict[str, str]:
    return {
        "row": row.label,
        "line": _named(line),
        "rate": f"{rate:g}",
        **estimated("FID", row.fid, places),
        **estimated("difference to dense", row.difference("fid"), places, signed=True),
        "seeds": str(row.fid.n if row.fid else 0),
    }


def _figure(lines: Sequence[Line]) -> Figure:
    architectures = list(dict.fromkeys(line.architecture for line in lines))
    figure, panels = grid(len(architectures), 3.4)
    for name, axes in zip(architectures, panels, strict=True):
        _panel(axes, [line for line in lines if line.architecture == name])
        axes.set_title(clean(name) or "this run")
    return figure


def _panel(axes: Axes, lines: Sequence[Line]) -> None:
    for one, look in zip(lines, looks([False] * len(lines)), strict=True):
        points = [Point(row, rate, row.fid, row.scores["fid"].values()) for rate, row in one.rows if row.fid]
        draw_line(axes, points, look, one.name)
    axes.set_xticks(sorted({rate for line in lines for rate, _ in line.rows}))
    axes.set_xlabel("share of tokens that bypasses")
    axes.set_ylabel("FID", color=MUTED)
    axes.locator_params(axis="y", nbins=6)
    axes.legend(loc="best", fontsize=8)
