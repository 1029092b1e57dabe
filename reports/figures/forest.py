"""Forests: a line for each row, its name on the left, and beside it estimates with their intervals, bars and words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tread_bench.reports.figures.style import INK, MUTED, SURFACE
from tread_bench.reports.rows.row import Row

LINE = 0.3  # inches from one row to the next
_WIDTH = 9.6  # inches
_ABOVE, _BELOW = 0.42, 0.6
_GAP, _RIGHT = 0.08, 0.1  # between columns, and beside the last
_CHARACTER = 0.082


class Column(NamedTuple):
    """A plot, whose width is a share of the room for plots, or a column of words under a title, in inches."""

    width: float
    title: str = ""


def forest(
    parts: Sequence[Sequence[str]], columns: Sequence[Column], line: float = LINE, before: float = 0.0
) -> tuple[Figure, list[list[Axes]]]:
    """Axes side by side for the rows of each part, whose lines count from 0 at the top.

    Args:
        parts: the names of the rows of each; parts stand below one another.
        columns: the first is a plot. The axes of words count inches.
        line: inches from one row to the next.
        before: inches on the left of the names.
    """
    # How wide everything is.
    left = 0.2 + before + _CHARACTER * max(len(name) for names in parts for name in names)
    words = sum(column.width for column in columns if column.title)
    shares = sum(column.width for column in columns if not column.title)
    unit = (_WIDTH - left - words - _GAP * len(columns) - _RIGHT) / shares
    widths = [column.width if column.title else unit * column.width for column in columns]
    height = sum(_ABOVE + line * len(names) + _BELOW for names in parts)

    # A line of axes for each part, from top to bottom.
    figure = Figure(figsize=(_WIDTH, height))
    lines: list[list[Axes]] = []
    y = height
    for names in parts:
        y -= _ABOVE + line * len(names)
        x = left
        found: list[Axes] = []
        for width in widths:
            place = (x / _WIDTH, y / height, width / _WIDTH, line * len(names) / height)
            found.append(figure.add_axes(place, sharey=found[0] if found else None))
            x += width + _GAP
        for axes, column in zip(found, columns, strict=True):
            _style(axes, column, has_title=not lines)
        found[0].set_yticks(range(len(names)), names)
        found[0].tick_params(labelleft=True)
        found[0].set_ylim(len(names) - 0.5, -0.5)
        lines.append(found)
        y -= _BELOW
    return figure, lines


def _style(axes: Axes, column: Column, has_title: bool) -> None:
    axes.tick_params(labelleft=False)
    axes.spines["left"].set_visible(False)
    axes.locator_params(axis="x", nbins=5)
    if column.title:
        axes.set_axis_off()
        axes.set_xlim(0, column.width)
        axes.set_title(column.title if has_title else "", color=MUTED, size=8.5, x=0.05 / column.width)


def write(axes: Axes, y: float, text: str, colour: str = INK) -> None:
    """Words in their column."""
    axes.text(0.05, y, text, va="center", color=colour)


def still(axes: Axes, value: float) -> None:
    """A vertical line where nothing changes."""
    axes.axvline(value, color=MUTED, linewidth=1, zorder=0.5)
    axes.margins(x=0.1)


def dot(
    axes: Axes,
    y: float,
    mean: float,
    bounds: tuple[float, float] | None,
    colour: Any,
    marker: str = "o",
    label: str = "",
) -> None:
    """An estimate on its interval; `label` is what a legend calls it."""
    if bounds is not None:
        axes.plot(bounds, [y, y], color=colour, linewidth=2.2, solid_capstyle="butt")
    axes.plot([mean], [y], marker=marker, markersize=6, color=colour, markeredgecolor=SURFACE, markeredgewidth=0.8,
              linestyle="none", label=label)  # fmt: skip


def stack(axes: Axes, y: float, lengths: Mapping[str, float]) -> None:
    """Bars one after the other from 0, by their colours."""
    begin = 0.0
    for colour, length in lengths.items():
        axes.barh(y, length, left=begin, height=0.5, color=colour, linewidth=0)
        begin += length


def speed_up(axes: Axes, y: float, row: Row) -> None:
    """The measured speed-up of a training step, with a tick at the ideal one."""
    if ideal := row.ideal_speedup:
        axes.plot([ideal], [y], marker="|", markersize=12, markeredgewidth=1.8, color=MUTED)
    if row.speedup:
        ratio, low, high = row.speedup
        dot(axes, y, ratio, (low, high), INK)
