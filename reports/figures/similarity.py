"""How similar the outputs of the blocks are."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from numpy.typing import NDArray

from tread_bench.reports.figures.panels import (
    colour_bar,
    cosine_map,
    drawn_of,
    outline_route,
    panels,
    style_map,
)
from tread_bench.reports.figures.picture import Picture, picture_of
from tread_bench.reports.rows.row import Row
from tread_bench.reports.text.numbers import DASH, number

Matrix = NDArray[np.float64]


def similarities(rows: Sequence[Row], suffix: str = "") -> Picture | None:
    """Cosine similarity of all pairs of block outputs, one heat map per row, the route drawn in."""
    means = [(row, mean) for row in rows if (mean := _mean_similarity(row)) is not None]
    if not means:
        return None
    drawn, left_out = drawn_of(means, itemgetter(0))
    return picture_of(
        "similarity", _figure(drawn), [_numbers(*one) for one in means], suffix, left_out=left_out,
        drawn=[_numbers(*one) for one in drawn],
    )  # fmt: skip


def _numbers(row: Row, mean: Matrix) -> dict[str, str]:
    """Mean similarity of neighbouring blocks whose two outputs lie inside one route, and of all other neighbours."""
    is_inside = np.array([any(first <= i < last for first, last in row.spans) for i in range(len(mean) - 1)], bool)
    beside = np.diagonal(mean, 1)
    return {
        "row": row.label,
        "blocks": str(len(mean)),
        "mean, neighbours inside a route": _mean(beside[is_inside]),
        "mean, other neighbours": _mean(beside[~is_inside]),
    }


def _figure(means: Sequence[tuple[Row, Matrix]]) -> Figure:
    made = panels([row for row, _ in means])
    for axes, (row, mean) in zip(made.axes, means, strict=True):
        image = _heat_map(axes, row, mean)
    colour_bar(made, image)
    return made.figure


def _mean_similarity(row: Row) -> Matrix | None:
    """(L, L) over the seeds."""
    found = [np.asarray(record.similarity.matrix) for record in row.done if record.similarity]
    return np.mean(found, axis=0) if found else None


def _heat_map(axes: Axes, row: Row, mean: Matrix) -> AxesImage:
    image = cosine_map(axes, mean)
    for first, last in row.spans:
        outline_route(axes, first - 0.5, first - 0.5, last - first + 1, last - first + 1)
    ticks = range(0, len(mean), max(1, len(mean) // 4))
    axes.set_xticks(ticks)
    axes.set_yticks(ticks)
    style_map(axes)
    return image


def _mean(values: Matrix) -> str:
    return number(float(values.mean()), 3) if values.size else DASH
