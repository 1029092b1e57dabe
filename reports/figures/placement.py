"""Where routes are, and what each place costs in FID, as bars over the blocks."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from tread_bench.core.numbers.statistics import MeanInterval
from tread_bench.reports import requested
from tread_bench.reports.differences import ITERATIONS, MACS
from tread_bench.reports.figures.picture import Picture
from tread_bench.reports.figures.style import INK, MUTED, RULE, SURFACE, clean, tone
from tread_bench.reports.row import Row, by_architecture, chosen
from tread_bench.reports.text.numbers import DASH, decimals, interval, number, words

_MOST = 30  # rows in the picture
_WIDTH, _LINE, _LEFT = 6.4, 0.42, 1.9  # inches: it is read on a phone as well


def route_placement(rows: Sequence[Row]) -> Picture | None:
    """Draw each route as a bar over the blocks, beside its FID difference to its reference, with the interval below.

    Drawn where routes lie at different places, and controls beside them.
    """
    placed = []
    for row in rows:
        is_shown = row.is_dense or requested.stands_beside_routes(row.first) or requested.is_plain_routing(row.first)
        if row.fid and row.blocks and is_shown and not requested.is_evaluated_only(row.first):
            placed.append(row)
    parts = [part for part in by_architecture(placed) if any(requested.is_plain_routing(row.first) for row in part)]
    placed = [row for part in parts for row in part]
    most = max((len({tuple(row.spans) for row in part if row.spans}) for part in parts), default=0)
    is_alone = len(parts) == 1 and sum(bool(row.spans) for row in placed) == 1
    if not most or (most == 1 and not is_alone):
        return None  # rows with the same routes differ in something else

    # The rows, those of lowest FID where there are many.
    at = MACS if any(row.differs_at_equal_macs for row in placed) else ITERATIONS
    drawn, left_out = chosen(placed, _MOST)
    places = decimals(row.fid.mean for row in placed if row.fid)
    shown = {row.name: row.difference(at) for row in placed}
    said, numbers = {}, []
    for row in placed:
        difference, sides = shown[row.name], row.sides(at)
        fid = row.fid.mean if row.fid and (row.is_reference or at == ITERATIONS) else None
        if sides:
            fid = fmean(sides[0][0].values())
        line = {"row": row.name, f"FID at {at}": number(fid, places), "ΔFID": DASH, "95 % interval": DASH}
        said[row.name] = "reference" if row.is_reference else "no pair"
        if difference:
            said[row.name] = words(difference, places)
            line |= {"ΔFID": number(difference.mean, places, True), "95 % interval": interval(difference, places, True)}
        numbers.append(line)
    return Picture(
        name="route_placement",
        title="Route placement",
        caption="Tokens leave before the first block of a bar and come back after its last. ΔFID is the row minus its "
        f"reference at {at}, paired over seeds, with its unadjusted 95 % t interval. Blue: the interval lies below 0; "
        "orange: above; grey: it includes 0, or there is none. Several bars in a line are routes of one row."
        f"{left_out}",
        description=f"One bar per route from its first to its last block, and ΔFID at {at}. "
        + "; ".join(f"{row.name}: {said[row.name]}" for row in drawn),
        drawing=_bars(drawn, shown, said, at),
        numbers=numbers,
    )


def _colour(row: Row, estimate: MeanInterval | None) -> str:
    """Grey where the difference says nothing about the row: of a smoke run, or by the judgement of its own teacher."""
    if estimate is None or row.is_smoke or row.is_evaluated_by_teacher:
        return MUTED
    return tone(estimate.low, estimate.high)


def _bars(rows: Sequence[Row], shown: dict[str, MeanInterval | None], said: dict[str, str], at: str) -> Figure:
    """Bars on the left, intervals on the right; the figures stand under the name of their row, so that it is narrow."""
    # Two panels beside the names.
    figure = Figure(figsize=(_WIDTH, 0.65 + _LINE * len(rows)))
    high = _LINE * len(rows) / figure.get_figheight()
    bottom, wide = 0.55 / figure.get_figheight(), (_WIDTH - _LEFT - 0.2) / _WIDTH
    bars = figure.add_axes((_LEFT / _WIDTH, bottom, 0.5 * wide, high))
    fids = figure.add_axes((_LEFT / _WIDTH + 0.54 * wide, bottom, 0.46 * wide, high), sharey=bars)

    # A line for each row: its blocks, the routes on them, its difference, its name.
    several = len({row.architecture for row in rows}) > 1
    for y, row in enumerate(rows):
        estimate = shown[row.name]
        colour = _colour(row, estimate)
        bars.add_patch(Rectangle((-0.5, y - 0.05), row.blocks, 0.1, color=RULE, linewidth=0))
        for first, last in row.spans:
            place = (first - 0.5, y - 0.29), last - first + 1, 0.58
            bars.add_patch(Rectangle(*place, facecolor=colour, edgecolor=SURFACE, linewidth=0.8))
        if estimate:
            if estimate.bounds is not None:
                fids.plot(estimate.bounds, [y, y], color=colour, linewidth=2.2, solid_capstyle="butt")
            fids.plot([estimate.mean], [y], marker="o", markersize=6, color=colour, markeredgecolor=SURFACE)
        left = bars.get_yaxis_transform()
        name = row.full_label if several else row.short_label
        bars.text(-0.03, y - 0.05, clean(name, 30), transform=left, ha="right", va="bottom", color=INK)
        bars.text(-0.03, y + 0.02, said[row.name], transform=left, ha="right", va="top", color=MUTED, size=7.5)

    # Axes.
    blocks = max(row.blocks for row in rows)
    bars.set(xlim=(-0.6, blocks - 0.4), xticks=range(0, blocks, max(1, round(blocks / 8))), xlabel="block", yticks=[])
    bars.set_ylim(len(rows) - 0.5, -0.5)
    fids.axvline(0, color=MUTED, linewidth=1, zorder=0.5)
    fids.tick_params(labelleft=False)
    fids.set_xlabel(f"ΔFID at {at}")
    fids.locator_params(axis="x", nbins=4)
    for axes in (bars, fids):
        axes.spines["left"].set_visible(False)
    return figure
