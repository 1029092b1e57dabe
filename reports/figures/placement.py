"""Where routes are, and what each place costs in FID: as bars over the blocks, and as a map of starts and ends."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from tread_bench.core.describe.routes import parse_routes
from tread_bench.core.numbers.statistics import MeanInterval
from tread_bench.reports.figures.bases import Basis
from tread_bench.reports.figures.drawing import estimated
from tread_bench.reports.figures.forest import Column, dot, forest, still, write
from tread_bench.reports.figures.panels import drawn_of
from tread_bench.reports.figures.picture import Picture, picture_of
from tread_bench.reports.figures.style import COLOURS, INK, MUTED, RULE, SURFACE, clean, marks_of
from tread_bench.reports.rows import requested
from tread_bench.reports.rows.architectures import by_architecture
from tread_bench.reports.rows.row import Row
from tread_bench.reports.text.numbers import DASH, decimals, number, words
from tread_bench.reports.text.numbers import words as in_words

_MOST = 30  # rows in the picture
_FEWEST = 4  # placements of one rate that make a map
_MOST_RATES = 3
_WIDE, _HIGH = 0.62, 0.4  # inches of a cell


class _Line(NamedTuple):
    """One row of the picture."""

    row: Row
    fid: MeanInterval | None  # at what the rows are compared at
    shown: MeanInterval | None  # the difference to dense where the run has any, else the FID itself
    text: str


def route_placement(rows: Sequence[Row], bases: Sequence[Basis], suffix: str = "") -> list[Picture]:
    """Draw each route as a bar over the blocks, coloured by its FID difference to dense, beside its interval.

    A picture at equal training cost, where rows were compared so, and one at equal iterations.
    """
    # The rows of architectures with routes that lie at different places.
    placed = [row for row in rows if _is_placed(row)]
    parts = by_architecture(placed)
    parts = [part for part in parts if any(requested.is_plain_routing(row.first) for row in part)]
    most = max(map(_num_places, parts), default=0)
    if not most or (most == 1 and (len(parts) > 1 or any(_num_routed(part) > 1 for part in parts))):
        return []  # rows with the same routes differ in something else, which has its own picture

    # Their picture on each basis.
    placed = [row for part in parts for row in part]
    found: list[Basis | None] = [*bases]
    return [_picture(placed, basis, suffix) for basis in found or [None]]


def _picture(placed: Sequence[Row], basis: Basis | None, suffix: str) -> Picture:
    places = decimals(row.fid.mean for row in placed if row.fid)
    lines = [_line(row, basis, places) for row in placed]
    drawn, left_out = drawn_of(lines, lambda line: line.row, _MOST)
    parts = [list(part) for _, part in groupby(drawn, lambda line: line.row.group)]
    are_judged = basis is not None and not any(row.is_smoke for row in placed)
    routed = [line.row for line in drawn if line.row.spans]  # dense has no bar
    return picture_of(
        "route_placement", _figure(parts, basis), [_numbers(line, basis, places) for line in lines], suffix,
        basis=basis, drawn=drawn, left_out=left_out, are_judged=are_judged,
        has_best=basis is not None and any(map(basis.is_best, routed)), are_several=_are_several(lines),
        has_loss=any(requested.auxiliary(row.first) for row in placed),
    )  # fmt: skip


def _are_several(lines: Sequence[_Line]) -> bool:
    return any(len(line.row.spans) > 1 for line in lines)


def _is_placed(row: Row) -> bool:
    """Whether routes and nothing else are what the row is about, or it is a control beside them."""
    is_beside = requested.stands_beside_routes(row.first)
    has_place = row.is_dense or is_beside or requested.is_plain_routing(row.first)
    return bool(row.fid and row.blocks and has_place and not requested.is_evaluated_only(row.first))


def _line(row: Row, basis: Basis | None, places: int) -> _Line:
    fid = basis.fids.get(id(row)) if basis else row.fid
    shown = basis.shown(row) if basis else row.fid
    nothing = "reference" if row.is_reference else "no pair"
    text = in_words(shown, places, signed=basis is not None, nothing=nothing)
    return _Line(row, fid, shown, text)


def _num_places(rows: Sequence[Row]) -> int:
    return len({tuple(row.spans) for row in rows if row.spans})


def _num_routed(rows: Sequence[Row]) -> int:
    return sum(bool(row.spans) for row in rows)


def _numbers(line: _Line, basis: Basis | None, places: int) -> dict[str, str]:
    own = {"row": line.row.label, **estimated("FID", line.fid, places)}
    if basis:
        own |= estimated("FID difference", line.shown, places, signed=True)
    return own


def _figure(parts: Sequence[Sequence[_Line]], basis: Basis | None) -> Figure:
    # Bars, intervals and words side by side, for each architecture; their intervals share an axis.
    lines = [line for part in parts for line in part]
    columns = [Column(0.55), Column(0.45), Column(2.0, f"{'ΔFID' if basis else 'FID'} [95 % interval]")]
    figure, panels = forest([[clean(line.row.short_label) for line in part] for part in parts], columns)
    for _, fids, _ in panels[1:]:
        fids.sharex(panels[0][1])

    # A line for each row.
    scale = basis.scale([line.row for line in lines]) if basis else None
    for part, (bars, fids, texts) in zip(parts, panels, strict=True):
        for y, line in enumerate(part):
            tone = basis.tone(line.row, scale) if basis and scale else COLOURS[0]
            with marks_of(line.row.label, bars, fids, texts):
                _bar(bars, y, line.row, tone, is_best=basis is not None and basis.is_best(line.row))
                if line.shown:
                    dot(fids, y, line.shown.mean, line.shown.bounds, tone)
                write(texts, y, line.text)
        blocks = max(line.row.blocks for line in part)
        bars.set(xlim=(-0.6, blocks - 0.4), xticks=range(0, blocks, max(1, round(blocks / 12))), xlabel="block")
        bars.set_title(clean(part[0].row.architecture), pad=8)
        fids.margins(x=0.08)
        if basis:
            still(fids, 0)

    # An FID is never below 0, where the interval of few seeds may reach.
    if not basis:
        fids.set_xlim(left=max(0.0, fids.get_xlim()[0]))
    fids.set_xlabel(f"ΔFID at {basis.words}" if basis else "FID (left is better)")
    return figure


def _bar(axes: Axes, y: int, row: Row, tone: Any, is_best: bool) -> None:
    axes.add_patch(Rectangle((-0.5, y - 0.05), row.blocks, 0.1, color=RULE, linewidth=0))
    edge, width = (INK, 1.6) if is_best else (SURFACE, 0.8)
    for first, last in row.spans:
        place = (first - 0.5, y - 0.29), last - first + 1, 0.58
        axes.add_patch(Rectangle(*place, facecolor=tone, edgecolor=edge, linewidth=width))


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
    return [_picture_of_map(found, basis, places, suffix) for basis in bases if any(basis.shown(row) for row in placed)]


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


def _picture_of_map(found: dict[float, list[Row]], basis: Basis, places: int, suffix: str) -> Picture:
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
        "placement_map", _draw_map(found, basis, places), numbers, suffix, basis=basis,
        rows=rows, places=places, has_most_rates=len(found) == _MOST_RATES, has_best=any(map(basis.is_best, rows)),
        is_smoke=any(row.is_smoke for row in rows),
    )  # fmt: skip


def _draw_map(found: dict[float, list[Row]], basis: Basis, places: int) -> Figure:
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
