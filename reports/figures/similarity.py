"""How similar the outputs of the blocks are."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from numpy.typing import NDArray

from tread_bench.reports.figures import style
from tread_bench.reports.figures.panels import (
    colour_bar,
    cosine_map,
    drawn_of,
    outline_route,
    panels,
    style_map,
)
from tread_bench.reports.figures.style import Picture
from tread_bench.reports.rows.row import Row
from tread_bench.reports.text.numbers import DASH, number

Matrix = NDArray[np.float64]


def similarities(rows: Sequence[Row], suffix: str = "") -> Picture | None:
    """Cosine similarity of all pairs of block outputs, one heat map per row, the route drawn in."""
    means = [(row, mean) for row in rows if (mean := _mean_similarity(row)) is not None]
    if not means:
        return None
    drawn, left_out = drawn_of(means, itemgetter(0))
    table = [_numbers(row, mean) for row, mean in means]
    return Picture(
        name=f"similarity{suffix}", title="Layer cosine similarity", files=style.save(_figure(drawn)), table=table,
        headers=("row", "blocks", "mean, neighbours inside a route", "mean, other neighbours"),
        description="Heat maps of the similarity between the outputs of all blocks. "
        + "; ".join(map(_words, drawn)),
        caption="Cosine similarity between the outputs of every two blocks of the trained network without routing, "
        "averaged over tokens, held-out images, times and seeds. Colours follow the logarithm of 1 − cosine, on one "
        "scale for all maps. The orange square marks the route that the row was "
        f"trained with. {left_out}",
    )  # fmt: skip


def _numbers(row: Row, mean: Matrix) -> tuple[str, ...]:
    return (row.label, str(len(mean)), *_inside_and_outside(row, mean))


def _words(shown: tuple[Row, Matrix]) -> str:
    return "{0}: neighbouring blocks {2} inside a route, {3} elsewhere".format(*_numbers(*shown))


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


def _inside_and_outside(row: Row, mean: Matrix) -> tuple[str, str]:
    """Mean similarity of neighbouring blocks whose two outputs lie inside one route, and of all other neighbours."""
    inside = [any(first <= i < last for first, last in row.spans) for i in range(len(mean) - 1)]
    beside = np.diagonal(mean, 1)
    chosen = np.array(inside, dtype=bool)
    return _mean(beside[chosen]), _mean(beside[~chosen])


def _mean(values: Matrix) -> str:
    return number(float(values.mean()), 3) if values.size else DASH
