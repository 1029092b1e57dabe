"""How alike the outputs of the blocks are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from reports.comparison import Row
from reports.figures import style
from reports.figures.style import MUTED, SURFACE, Picture, clean
from reports.numbers import DASH, number
from tread_bench.routes import parse_routes


def similarities(rows: Sequence[Row], suffix: str = "") -> Picture | None:
    """Cosine similarity of all pairs of block outputs, one heat map per row, the route drawn in."""
    means = [(row, mean) for row in rows if (mean := _mean_similarity(row)) is not None]
    if not means:
        return None
    columns = min(4, len(means))
    lines = -(-len(means) // columns)
    figure = Figure(figsize=(9.6, 2.55 * lines * 4 / max(columns, 3)), layout="constrained")
    panels = figure.subplots(lines, columns, squeeze=False).ravel()
    lowest = min(0.0, *(float(mean.min()) for _, mean in means))
    for axes, (row, mean) in zip(panels, means, strict=False):
        image = _heat_map(axes, row, mean, lowest)
    for axes in panels[len(means) :]:
        axes.set_axis_off()
    bar = figure.colorbar(image, ax=list(panels), shrink=0.8, aspect=30, pad=0.015)
    bar.outline.set_visible(False)
    bar.set_label("cosine similarity", color=MUTED)
    svg, png = style.save(figure)
    table = [(row.label, str(len(mean)), *_inside_and_outside(row, mean)) for row, mean in means]
    return Picture(
        name=f"similarity{suffix}", title="Layer cosine similarity", svg=svg, png=png, table=table,
        headers=("row", "blocks", "mean, neighbours inside a route", "mean, other neighbours"),
        description="Heat maps of the similarity between the outputs of all blocks. " + "; ".join(
            f"{label}: neighbouring blocks {inside} inside a route, {outside} elsewhere" for label, _, inside, outside in table
        ),
        caption="Cosine similarity between the outputs of every two blocks of the trained network, run without routing, averaged over "
        "tokens, held-out images, times and seeds. The orange square marks the route that the row was trained with.",
    )  # fmt: skip


def _mean_similarity(row: Row) -> np.ndarray | None:
    """(L, L) over the seeds."""
    found = [np.asarray(record.similarity.matrix) for record in row.done if record.similarity]
    return np.mean(found, axis=0) if found else None


def _heat_map(axes: Axes, row: Row, mean: np.ndarray, lowest: float) -> object:
    image = axes.imshow(mean, cmap="viridis", vmin=lowest, vmax=1, interpolation="none", origin="lower")
    for route in parse_routes(row.first.routes):
        corner, side = (route.start - 0.5, route.start - 0.5), route.end - route.start + 1
        axes.add_patch(Rectangle(corner, side, side, fill=False, clip_on=False, edgecolor=SURFACE, linewidth=3.2))
        axes.add_patch(Rectangle(corner, side, side, fill=False, clip_on=False, edgecolor=style.WORSE, linewidth=1.8))
    axes.set_title(clean(row.label, 24))
    ticks = range(0, len(mean), max(1, len(mean) // 4))
    axes.set_xticks(ticks)
    axes.set_yticks(ticks)
    axes.grid(visible=False)
    axes.tick_params(length=0, labelcolor=MUTED)
    axes.spines[:].set_visible(False)
    return image


def _inside_and_outside(row: Row, mean: np.ndarray) -> tuple[str, str]:
    """Mean similarity of neighbouring blocks whose two outputs lie inside one route, and of all other neighbours."""
    routes = parse_routes(row.first.routes)
    inside = [any(r.start <= i and i + 1 <= r.end for r in routes) for i in range(len(mean) - 1)]
    beside = np.diagonal(mean, 1)
    chosen = np.array(inside, dtype=bool)
    return tuple(number(float(part.mean()), 3) if part.size else DASH for part in (beside[chosen], beside[~chosen]))
