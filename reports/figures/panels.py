"""Small multiples: one panel per row, the rows of an architecture side by side, all panels of one size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle

from reports.architectures import by_architecture
from reports.comparison import Row
from reports.figures import style
from reports.figures.style import MUTED, SURFACE, clean

SHOWN = 24  # panels in a picture that is not folded
_COLUMNS = 6
_LEFT, _RIGHT, _TOP, _BELOW, _GAP = 0.36, 1.15, 0.42, 0.34, 0.24  # inches


def shown_and_folded(rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """Of every architecture the first rows, dense among them, as many as keep the page short; and the others."""
    architectures = by_architecture(rows)
    each = max(2, SHOWN // max(1, len(architectures)))
    shown = [row for members in architectures for row in members[:each]]
    return shown, [row for members in architectures for row in members[each:]]


class Panels(NamedTuple):
    figure: Figure
    axes: list[Axes]  # one per row
    starts: list[bool]  # whether the panel is the first of its line and architecture
    key: tuple[float, float, float, float]  # place for a colour bar or a legend, in shares of the figure


def panels(rows: Sequence[Row], aspect: float = 1.0, widest: float = 1.95, gap: float = _GAP) -> Panels:
    """Titled empty axes, in inches at most `widest` wide and `aspect` times as wide as high."""
    counts = [len(members) for members in by_architecture(rows)]
    spots, columns = _spots(counts)
    side = min(widest, (9.6 - _LEFT - _RIGHT) / columns - gap)
    high, lines = side / aspect, spots[-1][0] + 1
    pitch = _TOP + high + _BELOW
    width, height = _LEFT + columns * (side + gap) + _RIGHT, lines * pitch
    figure = Figure(figsize=(width, height))
    axes = []
    for row, (line, column, _) in zip(rows, spots, strict=True):
        x, y = _LEFT + column * (side + gap), height - line * pitch - _TOP - high
        one = figure.add_axes((x / width, y / height, side / width, high / height))
        _title(one, row, int(side * 11))
        axes.append(one)
    key = (1 - (_RIGHT - 0.1) / width, 1 - (_TOP + high) / height, 0.13 / width, high / height)
    return Panels(figure, axes, [first for _, _, first in spots], key)


def _spots(counts: Sequence[int]) -> tuple[list[tuple[int, int, bool]], int]:
    """(line, column, first of its architecture's line) of every panel, and the number of columns.

    An architecture takes as few lines as it can, all of the same length; several share a line where they fit.
    """
    lengths = [-(-count // -(-count // _COLUMNS)) for count in counts]
    columns = max(lengths) * (_COLUMNS // max(lengths)) if len(counts) > 1 else lengths[0]
    spots, line, column = [], 0, 0
    for count, length in zip(counts, lengths, strict=True):
        if column + length > columns:
            line, column = line + 1, 0
        spots += [(line + k // length, column + k % length, k % length == 0) for k in range(count)]
        line, column = line + (count - 1) // length, column + length
    columns = max(column for _, column, _ in spots) + 1
    return spots, columns


def _title(axes: Axes, row: Row, longest: int) -> None:
    """The row's label, under its architecture where there are several."""
    axes.set_title(clean(row.short_label, longest), color=MUTED if row.architecture else style.INK)
    if row.architecture:
        above = {"xycoords": "axes fraction", "textcoords": "offset points", "annotation_clip": False}
        axes.annotate(clean(row.architecture, longest), (0, 1), (0, 19), size=10, **above)


def colour_bar(made: Panels, image: AxesImage) -> None:
    """Beside the first line of panels."""
    bar = made.figure.colorbar(image, cax=made.figure.add_axes(made.key))
    bar.outline.set_visible(False)
    bar.set_label("cosine similarity", color=MUTED)


def outline_route(axes: Axes, x: float, y: float, width: float, height: float) -> None:
    """A rectangle that stands out on every colour of the map."""
    for colour, line in ((SURFACE, 3.2), (style.WORSE, 1.8)):
        axes.add_patch(
            Rectangle((x, y), width, height, fill=False, clip_on=False, edgecolor=colour, linewidth=line, zorder=3)
        )


def settle_map(axes: Axes) -> None:
    """Ticks and frame of a heat map."""
    axes.grid(visible=False)
    axes.tick_params(length=0, labelcolor=MUTED)
    axes.spines[:].set_visible(False)
