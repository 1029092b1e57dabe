"""How similar the output of one block is at neighbouring times: what caching a layer between steps relies on."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from operator import itemgetter

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from numpy.typing import NDArray

from tread_bench.core.config.choices import DEFAULT_OBJECTIVE
from tread_bench.core.describe.objectives import objectives
from tread_bench.reports.figures.panels import (
    colour_bar,
    cosine_map,
    drawn_of,
    outline_route,
    panels,
    style_map,
)
from tread_bench.reports.figures.picture import Picture, picture_of
from tread_bench.reports.rows import requested
from tread_bench.reports.rows.row import Row
from tread_bench.reports.text.numbers import DASH, number

Pair = tuple[float, float]
Adjacent = dict[Pair, NDArray[np.float64]]  # two neighbouring times -> (L,) cosines


def across_times(rows: Sequence[Row], suffix: str = "") -> Picture | None:
    """Cosine similarity of each block's outputs at neighbouring times, one heat map per row."""
    found = [(row, adjacent_times(row)) for row in rows]
    known = [(row, adjacent) for row, adjacent in found if adjacent]
    if not known:
        return None
    drawn, left_out = drawn_of(known, itemgetter(0))
    pairs = sorted({pair for _, adjacent in known for pair in adjacent})
    cosines = [(row, np.stack(list(adjacent.values()))) for row, adjacent in drawn]
    return picture_of(
        "across_times", _figure(drawn), _numbers(known, pairs), suffix, left_out=left_out, times=_what(known[0][0]),
        drawn=[(row, float(each.min()), float(each.max())) for row, each in cosines],
    )  # fmt: skip


def adjacent_times(row: Row) -> Adjacent:
    """Mean over seeds; empty where similarity was measured at one time only, or not at all."""
    found = [record.similarity for record in row.done if record.similarity]
    if not found:
        return {}
    times = found[0].times
    mean = np.mean([np.asarray(similarity.across_times) for similarity in found], axis=0)  # (L, T, T)
    order = sorted(range(len(times)), key=times.__getitem__)
    return {(times[a], times[b]): mean[:, a, b] for a, b in pairwise(order)}


def _figure(known: Sequence[tuple[Row, Adjacent]]) -> Figure:
    longest = max(len(_named(pair)) for _, adjacent in known for pair in adjacent)
    made = panels([row for row, _ in known], aspect=1.7, widest=2.3, left=0.12 + 0.072 * longest)
    named: list[Pair] = []  # of the panel before
    for axes, first, (row, adjacent) in zip(made.axes, made.in_first_column, known, strict=True):
        image = _heat_map(axes, row, adjacent)
        names = [_named(pair) for pair in adjacent] if first or list(adjacent) != named else []
        axes.set_yticks(range(len(names)), names)
        named = list(adjacent)
    colour_bar(made, image)
    return made.figure


def _heat_map(axes: Axes, row: Row, adjacent: Adjacent) -> AxesImage:
    mean = np.stack(list(adjacent.values()))  # (T - 1, L)
    image = cosine_map(axes, mean, aspect="auto")
    for first, last in row.spans:
        outline_route(axes, first - 0.5, -0.5, last - first + 1, len(mean))
    axes.set_xticks(range(0, mean.shape[1], max(1, mean.shape[1] // 4)))
    style_map(axes)
    axes.tick_params(labelsize=8)
    return image


def _numbers(known: Sequence[tuple[Row, Adjacent]], pairs: Sequence[Pair]) -> list[dict[str, str]]:
    return [
        {
            "row": row.label,
            "block": str(block),
            "on a route": "yes" if any(a <= block <= b for a, b in row.spans) else DASH,
            **{_named(pair): number(float(adjacent[pair][block]) if pair in adjacent else None, 3) for pair in pairs},
        }
        for row, adjacent in known
        for block in range(len(next(iter(adjacent.values()))))
    ]


def _named(pair: Pair) -> str:
    return f"{pair[0]:.3g}–{pair[1]:.3g}"


def _what(row: Row) -> str:
    """What the times of the row's objective are; the rows of one picture share it."""
    return objectives().get(requested.objective(row.first), DEFAULT_OBJECTIVE.family).times
