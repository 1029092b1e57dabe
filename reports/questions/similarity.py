"""How similar the outputs of the blocks of a network are, to each other and at neighbouring times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure as Drawing
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from tread_bench.core.config.choices import DEFAULT_OBJECTIVE
from tread_bench.core.describe.objectives import objectives
from tread_bench.reports.figures.picture import Picture, picture_of
from tread_bench.reports.figures.style import MUTED, SURFACE, WORSE, clean
from tread_bench.reports.rows import requested
from tread_bench.reports.rows.row import Row, by_key
from tread_bench.reports.text.numbers import DASH, number

Matrix = NDArray[np.float64]
MOST = 18  # maps in a picture
_COLUMNS = 6
_COSINES = (0.0, 0.9, 0.99, 0.999)  # that the colour bar names, in equal steps; its ends include what is beyond


def similarities(rows: Sequence[Row]) -> list[Picture]:
    """Return maps of the similarity of all pairs of block outputs, and of each block's outputs at neighbouring times.

    Times of two objectives are different quantities and get a picture each.
    """
    known = [row for row in rows if any(record.similarity for record in row.done)]
    if not known:
        return []
    found = [_of_blocks(known)]
    by_objective = by_key(known, lambda row: requested.objective(row.first))
    for objective, members in by_objective.items():
        timed = {row.label: _across_times(row) for row in members}
        timed = {label: maps for label, maps in timed.items() if maps}
        if timed:
            shown = [row for row in members if row.label in timed]
            found.append(_of_times(shown, timed, objective if len(by_objective) > 1 else ""))
    return found


def chosen(rows: Sequence[Row]) -> tuple[list[Row], str]:
    """Dense rows and those of lowest FID, in their order, and what is said of the others."""
    ranked = sorted(rows, key=lambda row: (not row.is_dense, row.fid.mean if row.fid else float("inf")))[:MOST]
    left_out = f" Drawn: {len(ranked)} of {len(rows)} rows; the numbers have all." if len(ranked) < len(rows) else ""
    return [row for row in rows if any(row is one for one in ranked)], left_out


def _of_blocks(rows: Sequence[Row]) -> Picture:
    maps, numbers = {}, []
    for row in rows:
        matrices = [np.asarray(record.similarity.matrix) for record in row.done if record.similarity]
        maps[row.label] = mean = np.mean(matrices, axis=0)
        inside = np.array([any(a <= i < b for a, b in row.spans) for i in range(len(mean) - 1)], bool)
        beside = np.diagonal(mean, 1)
        numbers.append(
            {
                "row": row.label,
                "blocks": f"{len(mean)}",
                "mean, neighbours inside a route": _mean(beside[inside]),
                "mean, other neighbours": _mean(beside[~inside]),
            }
        )
    drawn, left_out = chosen(rows)
    return picture_of(
        "similarity",
        "Layer cosine similarity",
        "Cosine similarity between the outputs of every two blocks of the trained network without routing, averaged "
        "over tokens, held-out images, times and seeds. Colours follow the logarithm of 1 − cosine, on one scale for "
        f"all maps. The orange square marks the route that the row was trained with.{left_out}",
        "Heat maps of the similarity between the outputs of all blocks.",
        _maps(drawn, maps, {}),
        numbers,
    )


def _mean(values: Matrix) -> str:
    return number(float(values.mean()), 3) if values.size else DASH


def _across_times(row: Row) -> dict[str, Matrix]:
    """Two neighbouring times -> cosines (L,), mean over seeds; empty where similarity was measured at one time only."""
    found = [record.similarity for record in row.done if record.similarity]
    times = found[0].times
    mean = np.mean([np.asarray(similarity.across_times) for similarity in found], axis=0)  # (L, T, T)
    order = sorted(range(len(times)), key=times.__getitem__)
    return {f"{times[a]:.3g}–{times[b]:.3g}": mean[:, a, b] for a, b in pairwise(order)}


def _of_times(rows: Sequence[Row], timed: Mapping[str, dict[str, Matrix]], objective: str) -> Picture:
    pairs = list(dict.fromkeys(pair for row in rows for pair in timed[row.label]))
    numbers = []
    for row in rows:
        cosines = timed[row.label]
        for block in range(len(next(iter(cosines.values())))):
            line = {"row": row.label, "block": f"{block}"}
            line |= {pair: number(float(cosines[pair][block]), 3) if pair in cosines else DASH for pair in pairs}
            numbers.append(line)
    drawn, left_out = chosen(rows)
    times = objectives().get(requested.objective(rows[0].first), DEFAULT_OBJECTIVE.family).times
    return picture_of(
        f"across_times{objective and '-' + objective}",
        f"Across timesteps{objective and ', ' + objective}",
        f"Cosine similarity between the outputs of the same block at two neighbouring {times}, of the trained network "
        "without routing: same image, same noise, averaged over tokens, images and seeds. Colours are those of the map "
        "above. Layer caching reuses a block’s output at the next sampling step, so it loses least where this is near "
        f"1; sampling steps are closer together than these times, so their cosines are higher.{left_out}",
        "Heat maps of the similarity between the outputs of a block at neighbouring times.",
        _maps(drawn, {row.label: np.stack(list(timed[row.label].values())) for row in drawn}, timed),
        numbers,
    )


def _maps(rows: Sequence[Row], maps: Mapping[str, Matrix], names: Mapping[str, Mapping[str, Matrix]]) -> Drawing:
    """A map for each row, blocks from left to right, its routes outlined.

    `names` are those of its lines, if it has any, else both axes are blocks.
    """
    columns = min(_COLUMNS, len(rows))
    lines = -(-len(rows) // columns)
    figure = Drawing(figsize=(9.6, 0.5 + lines * (1.9 if not names else 1.6)))
    panels = list(figure.subplots(lines, columns, squeeze=False).flat)
    high = figure.get_figheight()
    left = 0.03 if not names else 0.08
    figure.subplots_adjust(left, 0.3 / high, 0.9, 1 - 0.3 / high, wspace=0.25, hspace=0.35)
    for unused in panels[len(rows) :]:
        unused.set_axis_off()
    for place, (axes, row) in enumerate(zip(panels, rows, strict=False)):
        cosines = maps[row.label]
        image = cosine_map(axes, cosines, "auto" if names else "equal")
        for first, last in row.spans:
            y, height = (-0.5, len(cosines)) if names else (first - 0.5, last - first + 1)
            for colour, width in ((SURFACE, 3.2), (WORSE, 1.8)):  # stands out on every colour of the map
                axes.add_patch(
                    Rectangle(
                        (first - 0.5, y), last - first + 1, height, fill=False, clip_on=False, edgecolor=colour,
                        linewidth=width, zorder=3,
                    )
                )  # fmt: skip
        ticks = range(0, cosines.shape[1], max(1, cosines.shape[1] // 4))
        axes.set(xticks=ticks, yticks=ticks if not names else ())
        if names and place % columns == 0:
            axes.set_yticks(range(len(cosines)), list(names[row.label]))
        axes.grid(visible=False)
        axes.tick_params(labelcolor=MUTED, labelsize=8)
        axes.spines[:].set_visible(False)
        axes.set_title(clean(f"{row.architecture} {row.short_label}".strip(), 150 // columns), size=8.5)
    _colour_bar(figure, image)
    return figure


def cosine_map(axes: Axes, cosines: Matrix, aspect: str) -> AxesImage:
    """Draw a heat map of cosine similarities, coloured by the logarithm of 1 - cosine.

    The outputs of most blocks agree to a few per cent, where a linear scale shows one colour. The scale is the same in
    all pictures of all pages, so that their colours are comparable.
    """
    distances = np.clip(1 - cosines, 1 - _COSINES[-1], 1 - _COSINES[0])
    norm = LogNorm(1 - _COSINES[-1], 1 - _COSINES[0])
    return axes.imshow(
        distances, cmap="viridis_r", norm=norm, interpolation="none", origin="lower",
        aspect="equal" if aspect == "equal" else "auto",
    )  # fmt: skip


def _colour_bar(figure: Drawing, image: AxesImage) -> None:
    """Of `cosine_map`, beside the first line of maps."""
    high = figure.get_figheight()
    bar = figure.colorbar(image, cax=figure.add_axes((0.925, 1 - 1.6 / high, 0.013, 1.2 / high)))
    bar.outline.set_visible(False)
    bar.minorticks_off()
    first, *between, last = (f"{cosine:g}" for cosine in _COSINES)
    bar.set_ticks([1 - cosine for cosine in _COSINES], labels=[f"≤ {first}", *between, f"≥ {last}"])
    bar.ax.invert_yaxis()
    bar.ax.tick_params(labelsize=8)
    bar.ax.set_title("cosine", color=MUTED, size=7.5)
