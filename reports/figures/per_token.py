"""Multiply-adds per token over the number of tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tread_bench.core.numbers.statistics import MeanInterval
from tread_bench.reports.claims.macs_per_token import Beside, CountedToken, Course, beside_attention, courses
from tread_bench.reports.figures import style
from tread_bench.reports.figures.drawing import grid, logarithmic
from tread_bench.reports.figures.lines import Point, aside, draw_line, legend_below, looks_by_name, tokens_below
from tread_bench.reports.figures.picture import Picture, picture_of
from tread_bench.reports.figures.style import MUTED
from tread_bench.reports.rows.row import Row
from tread_bench.reports.text.numbers import DASH, number

_Quantity = Callable[[CountedToken], float]
_QUANTITIES: dict[str, _Quantity] = {
    "MMACs per token": lambda point: point.macs / 1e6,
    "MMACs of recurrences per token": lambda point: point.scan / 1e6,
}


def macs_per_token(rows: Sequence[Row]) -> Picture | None:
    """Draw all multiply-adds and those of recurrences, a line per architecture over the tokens, dense beside routed."""
    found = courses(rows)
    if not found:
        return None
    made = {(one.linear.architecture, one.linear.route): one for one in beside_attention(found)}
    numbers = [_counted(one, point, made.get((one.architecture, one.route))) for one in found for point in one.points]
    return picture_of("macs_per_token", _draw(found), numbers, found=found, made=bool(made))


def _counted(course: Course, point: CountedToken, beside: Beside | None) -> dict[str, str]:
    pays = DASH if beside is None else f"{beside.tokens:,}" if beside.tokens else "never here"
    return {
        "row": point.row.label,
        "tokens": f"{point.tokens:,}",
        "MMACs per token": number(point.macs / 1e6, 3),
        "of attention": number(point.attention / 1e6, 3),
        "of recurrences": number(point.scan / 1e6, 3),
        "route": course.route,
        "fewer than attention from": pays,
    }


def _draw(found: Sequence[Course]) -> Figure:
    # A look for each architecture, the same in all panels.
    looks = looks_by_name(one.architecture for one in found)

    # A line of panels for each quantity that there is, dense and routed side by side.
    ways = {is_dense: [one for one in found if one.is_dense == is_dense] for is_dense in (True, False)}
    ways = {is_dense: members for is_dense, members in ways.items() if members}
    shown = {what: of for what, of in _QUANTITIES.items() if any(of(point) for one in found for point in one.points)}
    figure, panels = grid(len(shown) * len(ways), 3.6, columns=len(ways), sharey="row")
    places = [(what, of, is_dense) for what, of in shown.items() for is_dense in ways]
    for axes, (what, of, is_dense) in zip(panels, places, strict=True):
        _panel(axes, ways[is_dense], of, looks)
        axes.set_title("dense" if is_dense else "routed")
        if is_dense:
            axes.set_ylabel(what, color=MUTED)
    legend_below(figure, looks)
    return figure


def _panel(axes: Axes, found: Sequence[Course], of: _Quantity, looks: dict[str, style.Look]) -> None:
    drawn = [one for one in found if of(one.points[0])]
    for k, one in enumerate(drawn):
        apart = 1.02 ** aside(k, len(drawn))
        counts = [(point, MeanInterval(of(point), None, None, 1)) for point in one.points]
        draw_line(
            axes, [Point(point.row, point.tokens * apart, count) for point, count in counts], looks[one.architecture]
        )
    tokens_below(axes, {point.tokens for one in found for point in one.points})
    logarithmic(axes)
