"""Achieved speed-up against the number of tokens, and from where on a route pays."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from tread_bench.core.numbers.statistics import MeanInterval
from tread_bench.reports.claims.break_even import Line, TimedRow, in_words, is_about_speed, lines_of, rule
from tread_bench.reports.figures import style
from tread_bench.reports.figures.drawing import GRID_COLUMNS, grid
from tread_bench.reports.figures.lines import Point, aside, line
from tread_bench.reports.figures.picture import Picture, picture_of
from tread_bench.reports.figures.style import INK, MUTED, clean
from tread_bench.reports.rows.row import Row
from tread_bench.reports.text.numbers import number


def break_even(rows: Sequence[Row], suffix: str = "") -> Picture | None:
    """Draw a panel per architecture, a line per route over the tokens, its ideal dashed; of rows that were only
    timed.
    """
    lines = lines_of(rows) if is_about_speed(rows) else []
    routed = [line for line in lines if not _is_control(line)]
    if not any(len(line.points) > 1 for line in routed):
        return None
    return picture_of(
        "break_even", _figure(lines), [_numbers(line, point) for line in lines for point in line.points], suffix,
        rule=rule(rows), routed=[(line.architecture, in_words(line)) for line in routed],
    )  # fmt: skip


def _is_control(line: Line) -> bool:
    return all(point.row.is_dense for point in line.points)


def _numbers(line: Line, point: TimedRow) -> dict[str, str]:
    row, start = point.row, line.pays_from
    return {
        "row": row.label,
        "tokens": f"{point.tokens:,}",
        "images per step": f"{row.timings[0].batch:,}",
        "ideal": number(row.cost("ideal_speedup")),
        "achieved": number(point.speedup, 3),
        "95 % low": number(point.low, 3),
        "95 % high": number(point.high, 3),
        "step ms": number(row.timing("step_time_ms"), 1),
        "pays from": "control" if _is_control(line) else f"{start.tokens:,}" if start else "never here",
    }


def _figure(lines: Sequence[Line]) -> Figure:
    architectures = list(dict.fromkeys(line.architecture for line in lines))
    figure, panels = grid(len(architectures), 3.6, sharey=True)
    for name, axes in zip(architectures, panels, strict=True):
        _panel(axes, [line for line in lines if line.architecture == name])
        axes.set_title(clean(name))
    for axes in panels[::GRID_COLUMNS]:
        axes.set_ylabel("speed-up of a training step", color=MUTED)
    return figure


def _panel(axes: Axes, lines: Sequence[Line]) -> None:
    # The level of dense training, and the control beside the routes.
    axes.axhline(1, color=MUTED, linewidth=1, zorder=0.5)
    looks = style.looks(_is_control(one) for one in lines)
    ordered = sorted(zip(lines, looks, strict=True), key=lambda drawn: _is_control(drawn[0]))
    for k, (one, (colour, marker)) in enumerate(ordered):
        _draw(axes, one, 1.05 ** aside(k, len(lines)), (MUTED if _is_control(one) else colour, marker))

    # Every number of tokens that was measured, in equal steps for equal factors.
    tokens = sorted({point.tokens for line in lines for point in line.points})
    axes.set(xscale="log", xlabel="tokens of an image")
    axes.xaxis.set_major_locator(FixedLocator(tokens))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.tick_params(length=0)
    axes.legend(loc="upper left", fontsize=8)


def _draw(axes: Axes, one: Line, apart: float, look: style.Look) -> None:
    """Achieved speed-ups with their intervals, the ideal, and a ring where the route begins to pay."""
    places = [point.tokens * apart for point in one.points]
    ideal = [point.row.cost("ideal_speedup") or 1.0 for point in one.points]
    if not _is_control(one):
        axes.plot(places, ideal, color=look[0], linewidth=1, linestyle="--", alpha=0.7)
    achieved = [MeanInterval(point.speedup, point.low, point.high, 1) for point in one.points]
    points = [Point(*each) for each in zip((point.row for point in one.points), places, achieved, strict=True)]
    line(axes, points, look, one.route)
    if start := one.pays_from:
        axes.plot([start.tokens * apart], [start.speedup], marker="o", markersize=12, markerfacecolor="none",
                  markeredgecolor=INK, markeredgewidth=1.2, linestyle="none")  # fmt: skip
