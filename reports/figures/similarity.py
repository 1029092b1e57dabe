"""How similar the outputs of the blocks are, to each other, and of one block at neighbouring times."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from tread_bench.core.config.choices import DEFAULT_OBJECTIVE
from tread_bench.core.describe.objectives import objectives
from tread_bench.reports.figures.panels import Panels, drawn_of, is_on_route, panels
from tread_bench.reports.figures.picture import Picture, picture_of
from tread_bench.reports.figures.style import MUTED, SURFACE, WORSE
from tread_bench.reports.rows import requested
from tread_bench.reports.rows.row import Row
from tread_bench.reports.text.numbers import DASH, number

Matrix = NDArray[np.float64]
Pair = tuple[float, float]
Adjacent = dict[Pair, Matrix]  # two neighbouring times -> (L,) cosines
_COSINES = (0.0, 0.9, 0.99, 0.999)  # that the colour bar names, in equal steps; its ends include what is beyond


def similarities(rows: Sequence[Row], suffix: str = "") -> Picture | None:
    """Cosine similarity of all pairs of block outputs, one heat map per row, the route drawn in."""
    means = [(row, mean) for row in rows if (mean := _mean_similarity(row)) is not None]
    if not means:
        return None
    drawn, left_out = drawn_of(means, itemgetter(0))
    return picture_of(
        "similarity", _draw_blocks(drawn), [_neighbours(*one) for one in means], suffix, left_out=left_out,
        drawn=[_neighbours(*one) for one in drawn],
    )  # fmt: skip


def _neighbours(row: Row, mean: Matrix) -> dict[str, str]:
    """Mean similarity of neighbouring blocks whose two outputs lie inside one route, and of all other neighbours."""
    is_inside = np.array([any(first <= i < last for first, last in row.spans) for i in range(len(mean) - 1)], bool)
    beside = np.diagonal(mean, 1)
    return {
        "row": row.label,
        "blocks": str(len(mean)),
        "mean, neighbours inside a route": _mean(beside[is_inside]),
        "mean, other neighbours": _mean(beside[~is_inside]),
    }


def _draw_blocks(means: Sequence[tuple[Row, Matrix]]) -> Figure:
    made = panels([row for row, _ in means])
    for axes, (row, mean) in zip(made.axes, means, strict=True):
        image = _heat_map(axes, row, mean, are_pairs=True)
    _colour_bar(made, image)
    return made.figure


def _mean_similarity(row: Row) -> Matrix | None:
    """(L, L) over the seeds."""
    found = [np.asarray(record.similarity.matrix) for record in row.done if record.similarity]
    return np.mean(found, axis=0) if found else None


def _mean(values: Matrix) -> str:
    return number(float(values.mean()), 3) if values.size else DASH


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
        "across_times", _draw_times(drawn), _cosines(known, pairs), suffix, left_out=left_out, times=_what(known[0][0]),
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


def _draw_times(known: Sequence[tuple[Row, Adjacent]]) -> Figure:
    longest = max(len(_named(pair)) for _, adjacent in known for pair in adjacent)
    made = panels([row for row, _ in known], aspect=1.7, widest=2.3, left=0.12 + 0.072 * longest)
    named: list[Pair] = []  # of the panel before
    for axes, first, (row, adjacent) in zip(made.axes, made.in_first_column, known, strict=True):
        image = _heat_map(axes, row, np.stack(list(adjacent.values())))
        names = [_named(pair) for pair in adjacent] if first or list(adjacent) != named else []
        axes.set_yticks(range(len(names)), names)
        axes.tick_params(labelsize=8)
        named = list(adjacent)
    _colour_bar(made, image)
    return made.figure


def _cosines(known: Sequence[tuple[Row, Adjacent]], pairs: Sequence[Pair]) -> list[dict[str, str]]:
    return [
        {
            "row": row.label,
            "block": str(block),
            "on a route": "yes" if is_on_route(row, block) else DASH,
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


def _heat_map(axes: Axes, row: Row, cosines: Matrix, are_pairs: bool = False) -> AxesImage:
    """Blocks from left to right, the row's routes outlined; `are_pairs`: blocks from bottom to top as well."""
    image = cosine_map(axes, cosines, aspect="equal" if are_pairs else "auto")
    for first, last in row.spans:
        blocks = last - first + 1
        y, height = (first - 0.5, blocks) if are_pairs else (-0.5, len(cosines))
        for colour, width in ((SURFACE, 3.2), (WORSE, 1.8)):  # stands out on every colour of the map
            axes.add_patch(
                Rectangle((first - 0.5, y), blocks, height, fill=False, clip_on=False, edgecolor=colour,
                          linewidth=width, zorder=3)
            )  # fmt: skip
    ticks = range(0, cosines.shape[1], max(1, cosines.shape[1] // 4))
    axes.set(xticks=ticks, yticks=ticks if are_pairs else ())
    axes.grid(visible=False)
    axes.tick_params(labelcolor=MUTED)
    axes.spines[:].set_visible(False)
    return image


def cosine_map(axes: Axes, cosines: NDArray[np.float64], **look: Any) -> AxesImage:
    """Draw a heat map of cosine similarities, coloured by the logarithm of 1 - cosine.

    The outputs of most blocks agree to a few per cent, where a linear scale shows one colour. The scale is the same in
    all pictures of all pages, so that their colours are comparable.
    """
    distances = np.clip(1 - cosines, 1 - _COSINES[-1], 1 - _COSINES[0])
    norm = LogNorm(1 - _COSINES[-1], 1 - _COSINES[0])
    return axes.imshow(distances, cmap="viridis_r", norm=norm, interpolation="none", origin="lower", **look)


def _colour_bar(made: Panels, image: AxesImage) -> None:
    """Of `cosine_map`, beside the first line of panels."""
    bar = made.figure.colorbar(image, cax=made.figure.add_axes(made.key))
    bar.outline.set_visible(False)
    bar.minorticks_off()
    first, *between, last = (f"{cosine:g}" for cosine in _COSINES)
    bar.set_ticks([1 - cosine for cosine in _COSINES], labels=[f"≤ {first}", *between, f"≥ {last}"])
    bar.ax.invert_yaxis()
    bar.ax.tick_params(labelsize=8)
    bar.ax.set_title("cosine similarity", color=MUTED, size=7.5)
