"""What a single figure of a set of images does not show: the fit that it was extrapolated from."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from tread_bench.core.stored.evaluations import EvaluatedFigure, SetEvaluation
from tread_bench.reports.figures import style
from tread_bench.reports.figures.picture import Picture, picture_of
from tread_bench.reports.figures.style import BETTER, INK, MUTED, SURFACE, clean, row_key
from tread_bench.reports.text.numbers import decimals, number

_INFINITY = "∞"
_WIDTH = 7.2  # inches


def pictures_of(evaluation: SetEvaluation) -> list[Picture]:
    """Return a picture of every fit, in the order of the rows."""
    drawn = []
    several = len(evaluation.networks) > 1  # with figures
    with style.theme():
        for row in evaluation.measured:
            title = f"{row.title}, {row.network}" if several else row.title
            if row.points:
                drawn.append(_fit(row, title))
    return drawn


def _suffix(row: EvaluatedFigure) -> str:
    return f"-{row.figure}-{row_key(row.network)}"


def _fit(row: EvaluatedFigure, title: str) -> Picture:
    """The figure of subsets over 1/N, and the line whose value at 1/N = 0 is the extrapolated figure."""
    assert row.value is not None, "a fit has a result"
    at = np.array([1 / point.images for point in row.points])
    values = np.array([point.value for point in row.points])
    slope = (values.mean() - row.value) / at.mean()  # a least-squares line passes through the mean of its points

    # The points, the line, and where it ends.
    figure = Figure(figsize=(_WIDTH, 3.6), layout="constrained")
    axes = figure.add_subplot()
    ends = np.array([0, at.max()])
    axes.plot(ends, row.value + slope * ends, color=MUTED, linewidth=1.2, zorder=1)
    axes.plot(at, values, marker="o", markersize=5, color=BETTER, markeredgecolor=SURFACE, linestyle="none")
    if row.low is not None and row.high is not None:
        axes.plot([0, 0], [row.low, row.high], color=INK, linewidth=2.2, solid_capstyle="butt")
    axes.plot([0], [row.value], marker="D", markersize=7, color=INK, markeredgecolor=SURFACE)

    # An axis in 1/N that names N.
    counts = sorted({row.points[place].images for place in _spread(at)}, reverse=True)
    axes.set_xticks([0, *(1 / count for count in counts)], [_INFINITY, *(f"{count:,}" for count in counts)])
    axes.set_xlim(-0.04 * at.max(), 1.05 * at.max())
    axes.set(xlabel="images, in equal steps of 1 / images", ylabel=clean(row.title.rstrip(_INFINITY)))

    places = decimals([*values, row.value])
    found = [(f"{point.images:,}", point.value, "") for point in row.points]
    between = "" if row.low is None else f"{number(row.low, places)} to {number(row.high, places)}"
    found.append((f"{_INFINITY}, extrapolated", row.value, between))
    numbers = [
        {"images": images, "figure": number(value, places), "95 % interval": between}
        for images, value, between in found
    ]
    return picture_of("fit", figure, numbers, _suffix(row), about=title)


def _spread(at: np.ndarray) -> list[int]:
    """Places of a few points whose labels do not overlap: neighbours at least a ninth of the axis apart."""
    chosen: list[int] = []
    for place in np.argsort(-at):
        others = [*(at[one] for one in chosen), 0.0]
        if all(abs(at[place] - other) >= at.max() / 9 for other in others):
            chosen.append(int(place))
    return chosen
