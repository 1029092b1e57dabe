"""Where the routes are, and the effect of each on FID."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from tread_bench.core.statistics import Estimate
from tread_bench.reports import requested
from tread_bench.reports.comparison import Row
from tread_bench.reports.figures import style
from tread_bench.reports.figures.drawing import tones
from tread_bench.reports.figures.style import MUTED, RULE, SURFACE, Picture, clean, marks_of
from tread_bench.reports.numbers import DASH, decimals, interval, number
from tread_bench.reports.published import (
    placement_difference,
    placement_note,
    several_routes_note,
    stands_beside_published,
)
from tread_bench.reports.verdict import outcome

_ROW_HEIGHT = 0.32  # inches


class _Line(NamedTuple):
    """One row of the picture."""

    row: Row
    fid: Estimate
    shown: Estimate | None  # the difference to dense where the run has any, else the FID itself
    text: str
    published: float | None


def route_placement(rows: Sequence[Row], suffix: str = "") -> Picture | None:
    """Each route as a bar over the blocks, coloured by its FID difference to dense, beside its interval."""
    # The architectures with routes that lie at different places.
    paired = any(row.difference("fid") for row in rows)
    lines = _lines(rows, paired)
    parts = [part for part in _by_architecture(lines) if any(line.row.spans for line in part)]
    most = max(map(_num_places, parts), default=0)
    if not most or (most == 1 and (len(parts) > 1 or any(_num_routed(part) > 1 for part in parts))):
        return None  # rows with the same routes differ in something else, which has its own picture

    # Their picture.
    lines = [line for part in parts for line in part]
    svg, png = style.save(_figure(parts, paired))
    meaning = tones(rows)
    what = "FID difference to dense" if paired else "FID"
    return Picture(
        name=f"route_placement{suffix}", title="Route placement", svg=svg, png=png,
        headers=("row", "FID", "95 % interval", *((what, "95 % interval", "published") if paired else ())),
        table=[_numbers(line, paired, _places(lines)) for line in lines],
        description=f"One bar per route from its first to its last block, with its {what} and 95 % interval. "
        + "; ".join(f"{line.row.label}: {line.text}" for line in lines),
        caption="Tokens leave before the first block of a bar and come back after its last. "
        + f"Lines are 95 % t intervals over {'paired ' if paired else ''}seeds. "
        + (f"{meaning}The stronger the colour, the larger the difference. " if paired and meaning else "")
        + _several(lines) + (placement_note() if _has_published(lines) else ""),
    )  # fmt: skip


def _several(lines: Sequence[_Line]) -> str:
    """What there is to say of rows with several routes."""
    if not any(len(line.row.spans) > 1 for line in lines):
        return ""
    added = any(requested.auxiliary(line.row.first) for line in lines)
    loss = "A loss after a plus sign is added, over all routes of the row. " if added else ""
    published = f"{several_routes_note()} " if stands_beside_published(line.row for line in lines) else ""
    return f"Several bars in a line are routes one after another, of one row. {loss}{published}"


def _lines(rows: Sequence[Row], paired: bool) -> list[_Line]:
    places = decimals(row.fid.mean for row in rows if row.fid)
    lines = []
    for row in rows:
        has_place = row.is_dense or requested.is_plain_routing(row.first)
        is_placed = has_place and not requested.is_evaluated_only(row.first)
        if row.fid and row.blocks and is_placed:
            shown = row.difference("fid") if paired else row.fid
            published = placement_difference(row) if paired else None
            lines.append(_Line(row, row.fid, shown, _with_interval(row, shown, paired, places), published))
    return lines


def _by_architecture(lines: Sequence[_Line]) -> list[list[_Line]]:
    return [list(part) for _, part in groupby(lines, lambda line: line.row.group)]


def _num_places(lines: Sequence[_Line]) -> int:
    return len({tuple(line.row.spans) for line in lines if line.row.spans})


def _num_routed(lines: Sequence[_Line]) -> int:
    return sum(bool(line.row.spans) for line in lines)


def _places(lines: Sequence[_Line]) -> int:
    return decimals(line.fid.mean for line in lines)


def _has_published(lines: Sequence[_Line]) -> bool:
    return any(line.published is not None for line in lines)


def _with_interval(row: Row, estimate: Estimate | None, paired: bool, places: int) -> str:
    if estimate is None:
        return "reference" if row.is_dense else "no pair"
    text = number(estimate.mean, places, signed=paired)
    if estimate.bounds is None:
        return text
    return f"{text} [{', '.join(number(bound, places, signed=paired) for bound in estimate.bounds)}]"


def _numbers(line: _Line, paired: bool, places: int) -> tuple[str, ...]:
    own = (line.row.label, number(line.fid.mean, places), interval(line.fid, places))
    if not paired:
        return own
    shown = line.shown
    difference = (number(shown.mean, places, True), interval(shown, places, True)) if shown else (DASH, DASH)
    return (*own, *difference, number(line.published, 2, True))


def _figure(parts: Sequence[Sequence[_Line]], paired: bool) -> Figure:
    lines = [line for part in parts for line in part]
    largest = max((abs(line.shown.mean) for line in lines if line.shown), default=1.0) or 1.0
    scale = Normalize(-largest, largest)
    figure, panels = _panels(parts)
    for part, (bars, forest, words) in zip(parts, panels, strict=True):
        for y, line in enumerate(part):
            tone = _tone(line.row, scale) if paired else style.COLOURS[0]
            with marks_of(line.row.label, bars, forest, words):
                _bar(bars, y, line.row, tone)
                _interval(forest, y, line.shown, tone)
                words.text(0.05, y, line.text, va="center")
                if _has_published(lines):
                    words.text(3.1, y, number(line.published, 2, True), va="center", ha="right", color=MUTED)
        _style_axes(bars, forest, [line.row for line in part], paired)
    _head(panels[0][2], paired, _has_published(lines))
    forest.set_xlabel("FID difference to dense (left is better)" if paired else "FID (left is better)")
    return figure


def _tone(row: Row, scale: Normalize) -> Any:
    """The stronger, the larger the difference; grey where the verdict's test finds none."""
    difference = row.difference("fid")
    if difference is None:
        return MUTED
    return style.DIVERGING(scale(difference.mean if outcome(row) in ("better", "worse") else 0.0))


def _head(words: Axes, paired: bool, has_published: bool) -> None:
    words.text(0.05, -0.95, ("ΔFID" if paired else "FID") + " [95 % interval]", va="center", color=MUTED, size=8.5)
    if has_published:
        words.text(3.1, -0.95, "published ΔFID", va="center", ha="right", color=MUTED, size=8.5)


def _panels(parts: Sequence[Sequence[_Line]]) -> tuple[Figure, list[tuple[Axes, Axes, Axes]]]:
    """Bars, intervals and words side by side, a line of panels per architecture; the words' axis counts inches."""
    lines = [line for part in parts for line in part]
    top, below = 0.42, 0.5
    width, height = 9.6, sum(_ROW_HEIGHT * len(part) + top + below for part in parts)
    left = 0.2 + 0.082 * max(len(clean(line.row.short_label)) for line in lines)
    words = 3.2 if _has_published(lines) else 2.0
    shares = (0.55 * (width - left - words), 0.45 * (width - left - words), words)
    figure = Figure(figsize=(width, height))

    # From top to bottom; the intervals of all architectures share their axis.
    y = height
    shared = None
    found = []
    for part in parts:
        y -= top + _ROW_HEIGHT * len(part)
        places = [(left + sum(shares[:k]) + 0.06 * k, y, shares[k] - 0.06, _ROW_HEIGHT * len(part)) for k in range(3)]
        sizes = [(a / width, b / height, c / width, d / height) for a, b, c, d in places]
        bars = figure.add_axes(sizes[0])
        shared = figure.add_axes(sizes[1], sharey=bars, sharex=shared)
        text = figure.add_axes(sizes[2], sharey=bars)
        text.set_axis_off()
        text.set_xlim(0, words)
        found.append((bars, shared, text))
        y -= below
    return figure, found


def _bar(axes: Axes, y: int, row: Row, tone: Any) -> None:
    axes.add_patch(Rectangle((-0.5, y - 0.05), row.blocks, 0.1, color=RULE, linewidth=0))
    for first, last in row.spans:
        axes.add_patch(
            Rectangle((first - 0.5, y - 0.29), last - first + 1, 0.58, facecolor=tone, edgecolor=SURFACE, linewidth=0.8)
        )


def _interval(axes: Axes, y: int, estimate: Estimate | None, tone: Any) -> None:
    if estimate is None:
        return
    if estimate.bounds is not None:
        axes.plot(estimate.bounds, [y, y], color=tone, linewidth=2.2, solid_capstyle="butt")
    axes.plot([estimate.mean], [y], marker="o", markersize=6, color=tone, markeredgecolor=SURFACE, markeredgewidth=0.8)


def _style_axes(bars: Axes, forest: Axes, rows: Sequence[Row], paired: bool) -> None:
    blocks = max(row.blocks for row in rows)
    bars.set(xlim=(-0.6, blocks - 0.4), ylim=(len(rows) - 0.5, -0.5), xlabel="block")
    bars.set_xticks(range(0, blocks, max(1, round(blocks / 12))))
    bars.set_yticks(range(len(rows)), [clean(row.short_label) for row in rows])
    bars.set_title(clean(rows[0].architecture), pad=8)
    forest.margins(x=0.08)
    if paired:
        forest.axvline(0, color=MUTED, linewidth=1, zorder=0.5)
    forest.tick_params(labelleft=False)
    for axes in (bars, forest):
        axes.grid(axis="y", visible=False)
        axes.tick_params(length=0)
        axes.spines["left"].set_visible(False)
