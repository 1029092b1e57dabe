"""Small multiples: one panel per row, the rows of an architecture side by side, all panels of one size."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tread_bench.reports.figures import style
from tread_bench.reports.figures.style import MUTED, clean, mark
from tread_bench.reports.rows.architectures import by_architecture
from tread_bench.reports.rows.row import Row
from tread_bench.reports.text.sentences import say

SHOWN = 18  # panels in a picture
_COLUMNS = 6
_RIGHT, _BELOW = 1.15, 0.34  # inches


def first_by_rank(rows: Sequence[Row], most: int = SHOWN) -> list[Row]:
    """Of every architecture the dense rows and those of lowest FID, in their order: about `most` together."""
    architectures = by_architecture(rows)
    each = max(2, most // max(1, len(architectures)))
    chosen: set[int] = set()
    for members in architectures:
        dense = [row for row in members if row.is_dense]
        others = sorted((row for row in members if not row.is_dense), key=_fid)
        chosen |= {id(row) for row in (*dense, *others[: max(1, each - len(dense))])}
    return [row for row in rows if id(row) in chosen]


def _fid(row: Row) -> float:
    return row.fid.mean if row.fid else math.inf


T = TypeVar("T")


def drawn_of(known: Sequence[T], row_of: Callable[[T], Row], most: int = SHOWN) -> tuple[list[T], str]:
    """Return those of the rows that a picture shows, first by rank, and what it says of the others."""
    rows = list({id(row): row for row in map(row_of, known)}.values())
    shown = first_by_rank(rows, most)
    chosen = set(map(id, shown))
    drawn = [one for one in known if id(row_of(one)) in chosen]
    return drawn, say("figures/shared", "drawn", shown=len(shown), all=len(rows))


def is_on_route(row: Row, block: int) -> bool:
    return any(first <= block <= last for first, last in row.spans)


class Panels(NamedTuple):
    figure: Figure
    axes: list[Axes]  # one per row
    in_first_column: list[bool]
    leads: list[bool]  # whether the panel is the first of its architecture in its line
    key: tuple[float, float, float, float]  # place for a colour bar or a legend, in shares of the figure


def panels(
    rows: Sequence[Row], aspect: float = 1.0, widest: float = 1.95, left: float = 0.36, gap: float = 0.3
) -> Panels:
    """Titled empty axes, in inches at most `widest` wide and `aspect` times as wide as high."""
    # Where panels are, and how large everything is.
    spots, columns = _spots([len(members) for members in by_architecture(rows)])
    side = min(widest, (9.6 - left - _RIGHT) / columns - gap)
    top = 0.46 if rows[0].architecture else 0.28
    high = side / aspect
    lines = spots[-1].line + 1
    pitch = top + high + _BELOW
    width, height = left + columns * (side + gap) + _RIGHT, lines * pitch

    # A titled panel for each row, and a place for the key beside the first line.
    figure = Figure(figsize=(width, height))
    axes = []
    for row, spot in zip(rows, spots, strict=True):
        x = left + spot.column * (side + gap)
        y = height - spot.line * pitch - top - high
        axes.append(figure.add_axes((x / width, y / height, side / width, high / height), gid=mark(row.label)))
        _title(axes[-1], row, int((side + gap) * 13))
    key = (1 - (_RIGHT - 0.1) / width, 1 - (top + high) / height, 0.13 / width, high / height)
    return Panels(figure, axes, [not spot.column for spot in spots], [spot.leads for spot in spots], key)


class _Spot(NamedTuple):
    line: int
    column: int
    leads: bool


def _spots(counts: Sequence[int]) -> tuple[list[_Spot], int]:
    """The place of every panel, and the number of columns.

    An architecture takes as few lines as it can, all of the same length; several share a line where they fit.
    """
    lengths = [-(-count // -(-count // _COLUMNS)) for count in counts]
    widest = max(lengths) * (_COLUMNS // max(lengths))
    spots: list[_Spot] = []
    line, column = 0, 0
    for count, length in zip(counts, lengths, strict=True):
        if column + length > widest:
            line, column = line + 1, 0
        spots += [_Spot(line + k // length, column + k % length, k % length == 0) for k in range(count)]
        line, column = spots[-1].line, column + length
    return spots, max(spot.column for spot in spots) + 1


def _title(axes: Axes, row: Row, longest: int) -> None:
    """The row's label, under its architecture where there are several."""
    axes.set_title(clean(row.short_label, longest), color=MUTED if row.architecture else style.INK, size=8.5)
    if row.architecture:
        name = clean(row.architecture, longest)
        axes.annotate(name, (0, 1), (0, 19), xycoords="axes fraction", textcoords="offset points", size=9.5)
