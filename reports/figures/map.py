"""Where routes start and end, as a map of what each costs in FID."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from tread_bench.core.describe.routes import parse_routes
from tread_bench.reports.figures.bases import Basis
from tread_bench.reports.figures.picture import Picture, picture_of
from tread_bench.reports.figures.style import INK, MUTED, SURFACE, marks_of
from tread_bench.reports.rows import requested
from tread_bench.reports.rows.architectures import by_architecture
from tread_bench.reports.rows.row import Row
from tread_bench.reports.text.numbers import DASH, decimals, number, words

_FEWEST = 4  # placements of one rate that make a map
_MOST_RATES = 3
_WIDE, _HIGH = 0.62, 0.4  # inches of a cell


def placement_map(rows: Sequence[Row], bases: Sequence[Basis], suffix: str = "") -> list[Picture]:
    """Draw a cell for each route, first block across and last block up, coloured by its FID difference to dense.

    For one architecture, a panel for each rate that ran at several starts and ends; at equal training cost, where rows
    were compared so, and at equal iterations.
    """
    found = _by_rate(rows)
    if not found:
        return []
    placed = [row for members in found.values() for row in members]
    places = decimals(row.fid.mean for row in placed if row.fid)
    return [_picture(found, basis, places, suffix) for basis in bases if any(basis.shown(row) for row in placed)]


def _by_rate(rows: Sequence[Row]) -> dict[float, list[Row]]:
    """Rate -> the rows of one route each, which differ in where it is."""
    plain = [row for row in rows if len(row.spans) == 1 and row.fid and requested.is_routing_alone(row.first)]
    plain = [row for row in plain if not requested.is_evaluated_only(row.first)]
    if len(by_architecture(plain)) != 1:
        return {}
    found: dict[float, list[Row]] = {}
    for row in plain:
        found.setdefault(parse_routes(row.first.routes)[0].rate, []).append(row)
    maps = {rate: members for rate, members in found.items() if _is_map(members)}
    largest = sorted(maps, key=lambda rate: (-len(maps[rate]), rate))[:_MOST_RATES]
    return {rate: maps[rate] for rate in sorted(largest)}


def _is_map(rows: Sequence[Row]) -> bool:
    """Whether each place has one row, and there are several starts and ends."""
    spans = [row.spans[0] for row in rows]
    starts, ends = ({span[k] for span in spans} for k in (0, 1))
    return len(spans) == len(set(spans)) >= _FEWEST and min(len(starts), len(ends)) > 1


def _picture(found: dict[float, list[Row]], basis: Basis, places: int, suffix: str) -> Picture:
    rows = [row for members in found.values() for row in members]
    numbers = [
        {
            "row": row.label,
            "first block": str(row.spans[0][0]),
            "last block": str(row.spans[0][1]),
            "rate": f"{parse_routes(row.first.routes)[0].rate:g}",
            f"FID difference at {basis.words} [95 %]": words(basis.shown(row), places),
            "not distinguishable from the best": "yes" if basis.is_best(row) else DASH,
        }
        for row in rows
    ]
    return picture_of(
        "placement_map", _figure(found, basis, places), numbers, suffix, basis=basis,
        rows=rows, places=places, has_most_rates=len(found) == _MOST_RATES, has_best=any(map(basis.is_best, rows)),
        is_smoke=any(row.is_smoke for row in rows),
    )  # fmt: skip


def _figure(found: dict[float, list[Row]], basis: Basis, places: int) -> Figure:
    # The size of the figure, from the cells of its maps.
    scale = basis.scale([row for members in found.values() for row in members])
    grids = {rate: _grid(members) for rate, members in found.items()}
    wide = [_WIDE * len(starts) for starts, _ in grids.values()]
    high = _HIGH * max(len(ends) for _, ends in grids.values())
    width = max(4.2, 0.6 + sum(wide) + 0.7 * len(wide))
    height = 0.55 + high + (0.35 if len(found) > 1 else 0.1)
    figure = Figure(figsize=(width, height))

    # A map for each rate, side by side.
    x = 0.6
    for rate, members in found.items():
        starts, ends = grids[rate]
        own = _HIGH * len(ends)
        axes = figure.add_axes((x / width, 0.55 / height, _WIDE * len(starts) / width, own / height))
        for row in members:
            first, last = row.spans[0]
            with marks_of(row.label, axes):
                _cell(axes, starts.index(first), ends.index(last), row, basis, places, basis.tone(row, scale))
        axes.set(xlim=(-0.5, len(starts) - 0.5), ylim=(-0.5, len(ends) - 0.5), xlabel="first block of the route")
        axes.set_xticks(range(len(starts)), [str(start) for start in starts])
        axes.set_yticks(range(len(ends)), [str(end) for end in ends])
        axes.set_title(f"rate {rate:g}" if len(found) > 1 else "")
        axes.grid(visible=False)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        x += _WIDE * len(starts) + 0.7
    figure.axes[0].set_ylabel("last block", color=MUTED)
    return figure


def _grid(rows: Sequence[Row]) -> tuple[list[int], list[int]]:
    """The first blocks and the last blocks that occur."""
    starts, ends = ({row.spans[0][k] for row in rows} for k in (0, 1))
    return sorted(starts), sorted(ends)


def _cell(axes: Axes, x: int, y: int, row: Row, basis: Basis, places: int, tone: Any) -> None:
    """A square in the row's colour with its difference beneath; a frame where it may be the best."""
    estimate = basis.shown(row)
    edge, width = (INK, 2.0) if basis.is_best(row) else (SURFACE, 0.8)
    place = (x - 0.46, y - 0.44), 0.92, 0.88
    axes.add_patch(Rectangle(*place, facecolor=tone, edgecolor=edge, linewidth=width))
    text = number(estimate.mean, min(places, 1), True) if estimate else DASH
    axes.text(x, y, text, ha="center", va="center", size=8.5, color=_ink_on(tone))


def _ink_on(tone: Any) -> str:
    """Nearly black or nearly white, whichever is easier to read on the colour, in the light scheme and in the dark."""
    red, green, blue = to_rgb(tone)
    return "#101010" if 0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2 > 0.19 else "#fefefe"
