"""FID over the iterations where the share of routed tokens changes: warm-up of the routes, dense fine-tuning."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from tread_bench.core.numbers.schedule import routed_steps, routing_share
from tread_bench.reports.figures import style
from tread_bench.reports.figures.cost import CostPoint, points_of
from tread_bench.reports.figures.drawing import estimated, logarithmic
from tread_bench.reports.figures.lines import Point, aside, draw_line
from tread_bench.reports.figures.panels import drawn_of
from tread_bench.reports.figures.picture import Picture, picture_of
from tread_bench.reports.figures.style import BETTER, INK, MUTED, RULE, clean
from tread_bench.reports.rows import requested
from tread_bench.reports.rows.architectures import by_architecture
from tread_bench.reports.rows.row import Row
from tread_bench.reports.text.numbers import DASH, decimals

_STRIP = 0.26  # inches
_STEPS = 400  # places along a strip
_ASIDE = 0.006  # of the training, between two rows, so that their intervals do not hide each other


def schedules(rows: Sequence[Row], suffix: str = "") -> Picture | None:
    """Lines of FID above a strip per row that shows when its tokens are routed; drawn where schedules differ."""
    points = [point for index in range(len(rows)) for point in _points(index, rows)]
    known = [rows[index] for index in dict.fromkeys(point.row for point in points)]
    if not _differ(known) or len(by_architecture(known)) > 1:
        return None
    places = decimals(point.fid.mean for point in points)
    drawn, left_out = drawn_of(points, lambda point: rows[point.row])
    shown = [rows[index] for index in dict.fromkeys(point.row for point in drawn)]
    return picture_of(
        "schedule", _figure(rows, drawn), [_numbers(rows[point.row], point, places) for point in points], suffix,
        schedules={row.label: _schedule(row) for row in shown}, left_out=left_out,
    )  # fmt: skip


def _differ(rows: Sequence[Row]) -> bool:
    """Whether schedules distinguish some of the rows: rows of one method, or rows of one method and route."""
    routed = [row.first for row in rows if row.spans]
    trained = [(requested.method(first), first.routes) for first in routed]
    is_one = len({method for method, _ in trained}) == 1 or len(set(trained)) < len(trained)
    return is_one and any(map(requested.scheduled, routed))


def _points(index: int, rows: Sequence[Row]) -> list[CostPoint]:
    first = rows[index].first
    return [] if requested.is_evaluated_only(first) or requested.is_guided(first) else points_of(index, rows)


def _schedule(row: Row) -> str:
    if row.is_dense:
        return "dense throughout"
    return requested.scheduled(row.first) or "routed throughout"


def share(row: Row, step: int) -> float:
    """Of the routes' rates, at `step` from 0; of a dense row 0."""
    return routing_share(step, requested.iterations(row.first), requested.schedule(row.first)) if row.spans else 0.0


def _numbers(row: Row, point: CostPoint, places: int) -> dict[str, str]:
    return {
        "row": row.label,
        "schedule": _schedule(row),
        "iteration": f"{point.iteration:,}",
        "routed share": f"{share(row, point.iteration - 1):.2f}" if row.spans else DASH,
        **estimated("FID", point.fid, places),
        "seeds": str(point.fid.n),
    }


def _figure(rows: Sequence[Row], points: Sequence[CostPoint]) -> Figure:
    # FID above, a strip for each row below.
    members = sorted({point.row for point in points})
    strips = _STRIP * len(members) + 0.1
    figure = Figure(figsize=(9.6, 3.2 + strips + 0.6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3.2, strips))

    # The lines of FID, slightly apart.
    looks = style.looks(rows[index].is_dense for index in members)
    for k, (index, look) in enumerate(zip(members, looks, strict=True)):
        row = rows[index]
        apart = _ASIDE * aside(k, len(members)) * requested.iterations(row.first)
        own = [one for one in points if one.row == index]
        draw_line(above, [Point(row, one.iteration + apart, one.fid, one.fids) for one in own], look)

    # Where routes are under way, and where training is dense.
    _shade(above, [rows[index] for index in members])
    _strips(below, [rows[index] for index in members])

    # Axes and legend.
    fids = [fid for point in points for fid in point.fids]
    above.set_ylim(0.85 * min(fids), 1.15 * max(fids))  # an interval of two seeds may reach below 0
    logarithmic(above)
    above.set_ylabel("FID", color=MUTED)
    handles = [
        Line2D([], [], color=colour, marker=marker, label=clean(rows[index].short_label))
        for index, (colour, marker) in zip(members, looks, strict=True)
    ]
    figure.legend(handles=[*handles, Patch(color=RULE, alpha=0.6, label="dense part")], loc="outside right upper")
    return figure


def _shade(axes: Axes, rows: Sequence[Row]) -> None:
    """From where rows turn dense to the end."""
    for begin, end in {_dense_part(row) for row in rows if row.spans and requested.schedule(row.first).until < 1}:
        axes.axvspan(begin, end, color=RULE, alpha=0.45, linewidth=0, zorder=0.3)


def _dense_part(row: Row) -> tuple[int, int]:
    last = requested.iterations(row.first)
    return routed_steps(last, requested.schedule(row.first)), last


def _strips(axes: Axes, rows: Sequence[Row]) -> None:
    for y, row in enumerate(rows):
        last = requested.iterations(row.first)
        edges = np.linspace(0, last, min(last, _STEPS) + 1)
        shares = [round(share(row, int(step)), 2) for step in edges[:-1]]
        axes.barh(y, last, height=0.5, color=RULE, linewidth=0)
        for begin, end, strength in _stretches(edges, shares):
            axes.barh(y, end - begin, left=begin, height=0.5, color=BETTER, alpha=strength, linewidth=0)
    axes.set(ylim=(len(rows) - 0.4, -0.6), xlabel="iteration")
    axes.set_yticks(range(len(rows)), [clean(row.short_label) for row in rows], color=INK)
    axes.grid(visible=False)
    axes.spines["left"].set_visible(False)


def _stretches(edges: np.ndarray, shares: Sequence[float]) -> list[tuple[float, float, float]]:
    """(begin, end, share) of neighbours of one share, the routed ones."""
    found: list[tuple[float, float, float]] = []
    for k, strength in enumerate(shares):
        if found and found[-1][2] == strength:
            found[-1] = (found[-1][0], float(edges[k + 1]), strength)
        else:
            found.append((float(edges[k]), float(edges[k + 1]), strength))
    return [stretch for stretch in found if stretch[2] > 0]
