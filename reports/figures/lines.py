"""Lines over a quantity: at each of its values a mean with its interval, and the values of the seeds."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import nullcontext
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullLocator
from matplotlib.transforms import ScaledTranslation

from tread_bench.core.numbers.statistics import MeanInterval
from tread_bench.reports.figures.style import INK, SURFACE, Look, clean, marks_of
from tread_bench.reports.rows.row import Row


class Point(NamedTuple):
    """A row at one value of x."""

    row: Row
    x: float
    estimate: MeanInterval
    values: Iterable[float] = ()  # of the seeds


def draw_line(axes: Axes, points: Sequence[Point], look: Look, name: str = "", dashes: str = "-") -> None:
    """Draw a line through means, each with its interval and the mark of its row; a legend has it under `name`.

    A dense row among routed ones, where a line begins, keeps the mark of dense rows.
    """
    colour, marker = look
    is_of_one_row = len({point.row.label for point in points}) == 1
    are_dense = all(point.row.is_dense for point in points)
    with marks_of(points[0].row.label, axes) if is_of_one_row else nullcontext():
        axes.plot([point.x for point in points], [point.estimate.mean for point in points], color=colour, linewidth=1.3,
                  linestyle=dashes)  # fmt: skip
    for point in points:
        with marks_of(point.row.label, axes):
            upright(axes, point, (INK, "o") if point.row.is_dense and not are_dense else look)
    if name:
        axes.plot([], [], color=colour, marker=marker, linestyle=dashes, label=clean(name))


def upright(axes: Axes, point: Point, look: Look) -> None:
    """Mean and interval over x, the seeds' values as small points beside them."""
    colour, marker = look
    values = list(point.values)
    beside = axes.transData + ScaledTranslation(6 / 72, 0, axes.figure.dpi_scale_trans)  # inches
    axes.plot([point.x] * len(values), values, color=colour, marker=".", markersize=4, alpha=0.6, linestyle="none",
              transform=beside)  # fmt: skip
    if point.estimate.bounds is not None:
        axes.plot([point.x] * 2, point.estimate.bounds, color=colour, linewidth=1.6, solid_capstyle="butt")
    axes.plot([point.x], [point.estimate.mean], color=colour, marker=marker, markersize=7, markeredgecolor=SURFACE,
              markeredgewidth=0.8, linestyle="none")  # fmt: skip


def aside(place: int, count: int) -> float:
    """How far a line lies from the middle of so many, in steps, so that their intervals do not hide each other."""
    return place - (count - 1) / 2


def tokens_below(axes: Axes, tokens: Collection[int]) -> None:
    """Write every number of tokens that was measured below the axes, in equal steps for equal factors."""
    axes.set(xscale="log", xlabel="tokens of an image")
    axes.xaxis.set_major_locator(FixedLocator(sorted(tokens)))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.xaxis.set_minor_locator(NullLocator())
