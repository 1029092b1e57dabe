"""Marks and words that several pictures share: an estimate as a dot on its interval, per-seed points, panels' look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from tread_bench.core.numbers.statistics import MeanInterval
from tread_bench.reports.figures.style import mark, marks_of
from tread_bench.reports.rows.row import Row
from tread_bench.reports.text.numbers import DASH, interval, number
from tread_bench.reports.text.sentences import say

GRID_COLUMNS = 3


def estimated(what: str, estimate: MeanInterval | None, places: int, signed: bool = False) -> dict[str, str]:
    """Mean and interval, in two columns of a picture's numbers."""
    between = interval(estimate, places, signed) if estimate else DASH
    return {what: number(estimate.mean if estimate else None, places, signed), f"{what}, 95 % interval": between}


def speed_ups(row: Row) -> dict[str, str]:
    """The measured speed-up of a training step and the ideal one, in two columns of a picture's numbers."""
    measured = DASH
    if row.speedup:
        ratio, low, high = map(number, row.speedup)
        measured = f"{ratio} [{low}, {high}]"
    return {"speed-up [95 %]": measured, "ideal": number(row.ideal_speedup)}


def tones(rows: Sequence[Row]) -> str:
    """Return what the colours of differences to dense mean."""
    return "" if any(row.is_smoke for row in rows) else say("figures/shared", "tones")


def grid(
    count: int, high: float, below: float = 0.0, wide: float = 9.6, columns: int = GRID_COLUMNS, **shared: Any
) -> tuple[Figure, list[Axes]]:
    """So many panels, the columns of a line side by side, each line `high` inches; with room below all lines."""
    lines = -(-count // columns)
    figure = Figure(figsize=(wide, high * lines + below), layout="constrained")
    panels = list(figure.subplots(lines, min(columns, count), squeeze=False, **shared).flat)
    for unused in panels[count:]:
        unused.set_axis_off()
    return figure, panels[:count]


def legend_above(axes: Axes, colours: Mapping[str, str]) -> None:
    """Name the colours of bars in a line above their panel."""
    handles = [Patch(color=colour, label=name) for name, colour in colours.items()]
    axes.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1), ncols=len(handles), borderaxespad=0.2)


def logarithmic(axes: Axes) -> None:
    """The axis of FIDs, with plain numbers: 1, 2, 5, 10, ... where it spans a factor of 5, else in equal steps."""
    axes.set(yscale="log")
    low, high = axes.get_ylim()
    equal = MaxNLocator(6, steps=(1, 2, 5, 10))
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=12) if high >= 5 * low else equal)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_locator(NullLocator())


class End(NamedTuple):
    """Where a line ends, what it is called, and how it looks."""

    x: float
    y: float
    row: str
    name: str
    colour: str
    marker: str


_NAME = 0.17  # inches from one name to the next


def label_ends(axes: Axes, ends: Sequence[End]) -> None:
    """Name lines on the right of finished axes, each at the height of its end or as near to it as other names allow."""
    low, high = axes.get_ylim()
    figure = axes.figure.get_figure(root=True)
    assert figure is not None
    apart = _NAME / (0.85 * figure.get_figheight())
    ordered = sorted(ends, key=lambda end: end.y)
    to_share = axes.transScale + axes.transLimits
    heights = [float(to_share.transform((end.x, min(max(end.y, low), high)))[1]) for end in ordered]

    # From the bottom up no two names are nearer than a line; what does not fit at the top moves all down.
    for k in range(1, len(heights)):
        heights[k] = max(heights[k], heights[k - 1] + apart)
    for k in reversed(range(len(heights))):
        heights[k] = min(heights[k], 1 - apart * (len(heights) - 1 - k))

    # A name with its mark, joined to the end of its line.
    for end, height in zip(ordered, heights, strict=True):
        place = axes.transAxes
        joined = {"arrowstyle": "-", "color": end.colour, "linewidth": 0.8, "shrinkA": 0, "shrinkB": 4}
        with marks_of(end.row, axes):
            axes.annotate(end.name, (end.x, end.y), (1.08, height), textcoords=place, va="center", size=8.5,
                          arrowprops=joined, annotation_clip=False)  # fmt: skip
        marker = Line2D([1.06], [height], transform=place, marker=end.marker, color=end.colour)
        marker.set_gid(mark(end.row))
        figure.add_artist(marker)
