"""How similar the outputs of the blocks of a network are to each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure as Drawing
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from tread_bench.reports.figures.picture import Picture
from tread_bench.reports.figures.style import MUTED, SURFACE, WORSE, clean
from tread_bench.reports.row import Row, chosen
from tread_bench.reports.text.numbers import DASH, number

Matrix = NDArray[np.float64]
MOST = 18  # maps in a picture
_COLUMNS = 6
_COSINES = (0.0, 0.9, 0.99, 0.999)  # that the colour bar names, in equal steps; its ends include what is beyond


def similarities(rows: Sequence[Row]) -> Picture | None:
    """Return maps of the similarity of all pairs of block outputs, where it was measured."""
    rows = [row for row in rows if any(record.similarity for record in row.done)]
    if not rows:
        return None

    # The mean map of each row, and how alike neighbouring blocks are inside its routes and outside.
    maps, numbers = {}, []
    for row in rows:
        matrices = [np.asarray(record.similarity.matrix) for record in row.done if record.similarity]
        maps[row.name] = mean = np.mean(matrices, axis=0)
        inside = np.array([any(a <= i < b for a, b in row.spans) for i in range(len(mean) - 1)], bool)
        beside = np.diagonal(mean, 1)
        line = {"row": row.name, "blocks": f"{len(mean)}", "mean, neighbours inside a route": _mean(beside[inside])}
        numbers.append(line | {"mean, other neighbours": _mean(beside[~inside])})

    drawn, left_out = chosen(rows, MOST)
    return Picture(
        name="similarity",
        title="Layer cosine similarity",
        caption="Cosine similarity between the outputs of every two blocks of the trained network without routing, "
        "averaged over tokens, held-out images, times and seeds. Colours follow the logarithm of 1 − cosine, on one "
        f"scale for all maps. The orange square marks the route that the row was trained with.{left_out}",
        description="Heat maps of the similarity between the outputs of all blocks.",
        drawing=_maps(drawn, maps),
        numbers=numbers,
    )


def _mean(values: Matrix) -> str:
    return number(float(values.mean()), 3) if values.size else DASH


def _maps(rows: Sequence[Row], maps: Mapping[str, Matrix]) -> Drawing:
    """A map for each row, blocks from left to right and from bottom to top, its routes outlined."""
    columns = min(_COLUMNS, len(rows))
    lines = -(-len(rows) // columns)
    high = 0.5 + lines * 1.9
    figure = Drawing(figsize=(9.6, high))
    panels = list(figure.subplots(lines, columns, squeeze=False).flat)
    figure.subplots_adjust(0.03, 0.3 / high, 0.9, 1 - 0.3 / high, wspace=0.25, hspace=0.35)
    for unused in panels[len(rows) :]:
        unused.set_axis_off()
    for axes, row in zip(panels, rows, strict=False):
        image = cosine_map(axes, maps[row.name])
        for first, last in row.spans:
            for colour, width in ((SURFACE, 3.2), (WORSE, 1.8)):  # stands out on every colour of the map
                square = Rectangle((first - 0.5, first - 0.5), last - first + 1, last - first + 1, fill=False, zorder=3)
                square.set(clip_on=False, edgecolor=colour, linewidth=width)
                axes.add_patch(square)
        ticks = range(0, len(maps[row.name]), max(1, len(maps[row.name]) // 4))
        axes.set(xticks=ticks, yticks=ticks)
        axes.grid(visible=False)
        axes.tick_params(labelcolor=MUTED, labelsize=8)
        axes.spines[:].set_visible(False)
        axes.set_title(clean(row.full_label, 150 // columns), size=8.5)

    # What the colours mean, beside the first line of maps.
    bar = figure.colorbar(image, cax=figure.add_axes((0.925, 1 - 1.6 / high, 0.013, 1.2 / high)))
    bar.outline.set_visible(False)
    bar.minorticks_off()
    least, *between, most = (f"{cosine:g}" for cosine in _COSINES)
    bar.set_ticks([1 - cosine for cosine in _COSINES], labels=[f"≤ {least}", *between, f"≥ {most}"])
    bar.ax.invert_yaxis()
    bar.ax.tick_params(labelsize=8)
    bar.ax.set_title("cosine", color=MUTED, size=7.5)
    return figure


def cosine_map(axes: Axes, cosines: Matrix) -> AxesImage:
    """Draw a heat map of cosine similarities, coloured by the logarithm of 1 - cosine.

    The outputs of most blocks agree to a few per cent, where a linear scale shows one colour. The scale is the same in
    all pictures of all pages, so that their colours are comparable.
    """
    norm = LogNorm(1 - _COSINES[-1], 1 - _COSINES[0])
    distances = np.clip(1 - cosines, 1 - _COSINES[-1], 1 - _COSINES[0])
    return axes.imshow(distances, cmap="viridis_r", norm=norm, interpolation="none", origin="lower")
