"""Where the routes lie, and what each does to FID."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from reports.comparison import Row
from reports.figures import style
from reports.figures.style import MUTED, RULE, SURFACE, Picture, clean
from reports.numbers import DASH, decimals, interval, number
from reports.published import placement_difference, placement_note
from tread_bench.routes import parse_routes
from tread_bench.statistics import Estimate

_ROW_HEIGHT = 0.32  # inches


def route_placement(rows: Sequence[Row], suffix: str = "") -> Picture | None:
    """Each route as a bar over the blocks, coloured by its FID difference to dense, beside the difference's interval."""
    rows = [row for row in rows if row.fid and row.first.num_blocks]
    if not any(row.first.routes for row in rows):
        return None
    paired, places = any(row.difference("fid") for row in rows), decimals(row.fid.mean for row in rows)
    shown = [row.difference("fid") if paired else row.fid for row in rows]
    published = [placement_difference(row) for row in rows] if paired else []
    published = published if any(p is not None for p in published) else []
    texts = [_with_interval(row, estimate, paired, places) for row, estimate in zip(rows, shown, strict=True)]
    svg, png = style.save(_placement_figure(rows, shown, texts, published, paired))
    what = "FID difference to dense" if paired else "FID"
    return Picture(
        name=f"route_placement{suffix}", title="Route placement", svg=svg, png=png,
        headers=("row", "FID", "95 % interval", *((what, "95 % interval", "published") if paired else ())),
        table=[_placement_line(row, paired, places) for row in rows],
        description=f"One bar per route from its first to its last block, with its {what} and 95 % interval. "
        + "; ".join(f"{row.label}: {text}" for row, text in zip(rows, texts, strict=True)),
        caption="Tokens leave before the first block of a bar and come back after its last. "
        + ("Blue is a lower FID than dense, orange a higher one; lines are 95 % t intervals over paired seeds. " if paired else "")
        + (placement_note() if published else ""),
    )  # fmt: skip


def _placement_line(row: Row, paired: bool, places: int) -> tuple[str, ...]:
    difference = row.difference("fid")
    line = (row.label, number(row.fid.mean, places), interval(row.fid, places))
    if not paired:
        return line
    ours = (number(difference.mean, places, True), interval(difference, places, True)) if difference else (DASH, DASH)
    return (*line, *ours, number(placement_difference(row), 2, True))


def _with_interval(row: Row, estimate: Estimate | None, paired: bool, places: int) -> str:
    if estimate is None:
        return "reference" if row.is_dense else "no pair"
    text = number(estimate.mean, places, signed=paired)
    return text if estimate.low is None else f"{text} [{interval(estimate, places, paired).replace(' to ', ', ')}]"


def _placement_figure(
    rows: Sequence[Row], shown: Sequence[Estimate | None], texts: Sequence[str], published: Sequence[float | None], paired: bool
) -> Figure:
    figure, bars, forest, words = _panels(rows, any(p is not None for p in published))
    largest = max((abs(e.mean) for e in shown if e), default=1.0) or 1.0
    scale = Normalize(-largest, largest)
    for y, (row, estimate, text) in enumerate(zip(rows, shown, texts, strict=True)):
        tone = MUTED if estimate is None else style.DIVERGING(scale(estimate.mean)) if paired else style.COLOURS[0]
        _bar(bars, y, row, tone)
        _forest_line(forest, y, estimate, tone)
        words.text(0.05, y, text, va="center")
    for y, value in enumerate(published):
        words.text(3.1, y, number(value, 2, True), va="center", ha="right", color=MUTED)
    words.text(0.05, -0.95, ("ΔFID" if paired else "FID") + " [95 % interval]", va="center", color=MUTED, size=8.5)
    if published:
        words.text(3.1, -0.95, "published ΔFID", va="center", ha="right", color=MUTED, size=8.5)
    _placement_axes(bars, forest, rows, paired)
    return figure


def _panels(rows: Sequence[Row], has_published: bool) -> tuple[Figure, Axes, Axes, Axes]:
    """Bars, intervals and words side by side; the words' axis counts inches."""
    width, height = 9.6, _ROW_HEIGHT * len(rows) + 0.95
    left, words = 0.2 + 0.082 * max(len(clean(row.label)) for row in rows), 3.2 if has_published else 2.0
    middle = width - left - words
    figure = Figure(figsize=(width, height))
    bars, forest, text = figure.subplots(1, 3, sharey=True, width_ratios=(0.55 * middle, 0.45 * middle, words))
    figure.subplots_adjust(left=left / width, right=1, top=1 - 0.42 / height, bottom=0.5 / height, wspace=0.06)
    text.set_axis_off()
    text.set_xlim(0, words)
    return figure, bars, forest, text


def _bar(axes: Axes, y: int, row: Row, tone: object) -> None:
    axes.add_patch(Rectangle((-0.5, y - 0.05), row.first.num_blocks, 0.1, color=RULE, linewidth=0))
    for route in parse_routes(row.first.routes):
        place, length = route.start - 0.5, route.end - route.start + 1
        axes.add_patch(Rectangle((place, y - 0.29), length, 0.58, facecolor=tone, edgecolor=SURFACE, linewidth=0.8))


def _forest_line(axes: Axes, y: int, estimate: Estimate | None, tone: object) -> None:
    if estimate is None:
        return
    if estimate.low is not None:
        axes.plot([estimate.low, estimate.high], [y, y], color=tone, linewidth=2.2, solid_capstyle="butt")
    axes.plot([estimate.mean], [y], marker="o", markersize=6, color=tone, markeredgecolor=SURFACE, markeredgewidth=0.8)


def _placement_axes(bars: Axes, forest: Axes, rows: Sequence[Row], paired: bool) -> None:
    blocks = max(row.first.num_blocks for row in rows)
    bars.set(xlim=(-0.6, blocks - 0.4), ylim=(len(rows) - 0.5, -0.5), xlabel="block")
    bars.set_xticks(range(0, blocks, max(1, blocks // 12)))
    bars.set_yticks(range(len(rows)), [clean(row.label) for row in rows])
    forest.set_xlabel("FID difference to dense (left is better)" if paired else "FID (left is better)")
    forest.margins(x=0.08)
    if paired:
        forest.axvline(0, color=MUTED, linewidth=1, zorder=0.5)
    for axes in (bars, forest):
        axes.grid(axis="y", visible=False)
        axes.tick_params(length=0)
        axes.spines["left"].set_visible(False)
