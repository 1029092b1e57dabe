"""FID against the cost of training: counted MACs, and measured seconds where steps were timed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tread_bench.core.config.training import BUDGET_TOLERANCE
from tread_bench.core.numbers.statistics import MeanInterval, mean_interval
from tread_bench.reports.claims import equal_cost
from tread_bench.reports.claims.equal_cost import SAME_COST, AtEqualCost, curve, seeds_of
from tread_bench.reports.figures import style
from tread_bench.reports.figures.drawing import End, estimated, grid, label_ends, logarithmic
from tread_bench.reports.figures.panels import drawn_of
from tread_bench.reports.figures.picture import Picture, picture_of
from tread_bench.reports.figures.style import MUTED, SURFACE, clean, marks_of
from tread_bench.reports.rows import requested
from tread_bench.reports.rows.row import Row
from tread_bench.reports.text.numbers import decimals, number, scaled_macs


class CostPoint(NamedTuple):
    """A row at one evaluated iteration."""

    row: int
    iteration: int
    macs: float  # of training up to here, all images
    seconds: float | None  # of its steps, timed alone, and the wait for data
    fids: tuple[float, ...]  # one per seed

    @property
    def fid(self) -> MeanInterval:
        return mean_interval(self.fids)


def fid_against_cost(rows: Sequence[Row], costs: Sequence[AtEqualCost] = (), suffix: str = "") -> Picture | None:
    """Draw every evaluated iteration, joined per row, with 95 % intervals over seeds."""
    points = [point for index in range(len(rows)) for point in points_of(index, rows)]
    if not points:
        return None
    divisor, unit = scaled_macs(max(point.macs for point in points))
    several = len({row.group for row in rows}) > 1
    drawn, left_out = drawn_of(points, lambda point: rows[point.row])
    shown = {id(rows[point.row]) for point in drawn}
    compared = [one for one in costs if id(one.row) in shown and (one.at_macs or one.at_time)]
    draw_panels = draw_by_architecture if several else draw
    places = decimals(point.fid.mean for point in points)
    numbers = [
        {
            "row": rows[point.row].label,
            "iteration": f"{point.iteration:,}",
            f"training {unit}": number(point.macs / divisor),
            "training s": number(point.seconds, 1),
            **estimated("FID", point.fid, places),
        }
        for point in points
    ]
    return picture_of(
        "fid_cost", draw_panels(rows, drawn, compared), numbers, suffix, left_out=left_out, are_compared=bool(compared),
        rows=len({point.row for point in points}), iterations=max(point.iteration for point in points),
        has_schedule=any(requested.scheduled(row.first) for row in rows),
        has_seconds=any(point.seconds for point in points) and not several,
    )  # fmt: skip


def points_of(index: int, rows: Sequence[Row]) -> list[CostPoint]:
    """Return one row at every iteration at which its finished cells were evaluated under the group's protocol."""
    evaluated: dict[int, list[equal_cost.EvaluatedPoint]] = {}
    for seed in seeds_of(rows[index]):
        for point in curve(rows[index], seed):
            evaluated.setdefault(point.iteration, []).append(point)
    return [
        CostPoint(index, i, seeds[0].macs, seeds[0].seconds, tuple(point.fid for point in seeds))
        for i, seeds in sorted(evaluated.items())
    ]


def draw(rows: Sequence[Row], points: Sequence[CostPoint], costs: Sequence[AtEqualCost] = ()) -> Figure:
    """Draw one panel against MACs, one against seconds where any row was timed."""
    # Which panels there are.
    divisor, unit = scaled_macs(max(point.macs for point in points))
    timed = [point for point in points if point.seconds is not None]
    panels = [("macs", points, divisor, f"training cost in {unit}")]
    if timed:
        panels.insert(0, ("seconds", timed, 1.0, "training time in s, measured alone"))

    # Draw them side by side; they share the axis of FID.
    figure = Figure(figsize=(9.6, max(4.4, 0.24 * len({point.row for point in points}) + 0.6)), layout="constrained")
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for one, (what, shown, scale, label) in zip(axes, panels, strict=True):
        _panel(one, rows, shown, what, scale)
        _compared(one, rows, shown, costs, what, scale)
        one.set_xlabel(label)
    for one in axes:
        _style_axes(one)
    axes[0].set_ylabel("FID", color=MUTED)
    label_ends(axes[-1], _ends(rows, points, divisor))
    return figure


def _ends(rows: Sequence[Row], points: Sequence[CostPoint], divisor: float) -> list[End]:
    """Where the line of each row ends in the panel of MACs."""
    last = {point.row: point for point in points}
    looks = style.looks(row.is_dense for row in rows)
    return [
        End(point.macs / divisor, point.fid.mean, rows[index].label, clean(rows[index].short_label), *looks[index])
        for index, point in last.items()
    ]


def draw_by_architecture(rows: Sequence[Row], points: Sequence[CostPoint], costs: Sequence[AtEqualCost] = ()) -> Figure:
    """Draw one panel per architecture, against MACs, each with its own scales, since their FIDs are not
    comparable.
    """
    # A grid of panels.
    divisor, unit = scaled_macs(max(point.macs for point in points))
    groups = list(dict.fromkeys(rows[point.row].group for point in points))
    figure, panels = grid(len(groups), 2.7)

    # One for each architecture.
    for group, axes in zip(groups, panels, strict=True):
        own = [point for point in points if rows[point.row].group == group]
        _panel(axes, rows, own, "macs", divisor)
        _compared(axes, rows, own, costs, "macs", divisor)
        _style_axes(axes)
        axes.set_title(clean(next(row.architecture for row in rows if row.group == group)))
        axes.legend(loc="lower left", fontsize=8)
    figure.supxlabel(f"training cost in {unit}", color=MUTED, size=9)
    figure.supylabel("FID", color=MUTED, size=9)
    return figure


def _panel(axes: Axes, rows: Sequence[Row], points: Sequence[CostPoint], what: str, scale: float) -> None:
    groups = {rows[point.row].group for point in points}
    members = [index for index, row in enumerate(rows) if row.group in groups]
    for index, (colour, marker) in zip(members, style.looks(rows[i].is_dense for i in members), strict=True):
        own = [point for point in points if point.row == index]
        if not own:
            continue
        x = [getattr(point, what) / scale for point in own for _ in point.fids]
        y = [fid for point in own for fid in point.fids]
        with marks_of(rows[index].label, axes):
            sns.lineplot(
                x=x, y=y, ax=axes, color=colour, marker=marker, markersize=7, markeredgecolor=SURFACE, legend=False,
                label=clean(rows[index].short_label), err_style="bars", errorbar=_t_interval,
                err_kws={"elinewidth": 1.4},
            )  # fmt: skip


def _compared(
    axes: Axes, rows: Sequence[Row], points: Sequence[CostPoint], costs: Sequence[AtEqualCost], what: str, scale: float
) -> None:
    """The lines of equal cost through the ends of references, and what is compared along them and beside them."""
    lines: dict[float, str] = {}
    for one in costs:
        cost = one.macs if what == "macs" else one.seconds
        difference = one.at_macs if what == "macs" else one.at_time
        if cost is None or difference is None:
            continue
        own = [point for point in points if rows[point.row] is one.row]
        others = [point for point in points if rows[point.row] is one.reference]
        row = _at(cost, own, what, BUDGET_TOLERANCE if what == "macs" and one.is_trained else SAME_COST)
        reference = _at(cost, others, what, SAME_COST)
        if what == "seconds" and one.is_evaluated_at_time and reference is not None:
            row = reference + difference.mean
        if reference is not None and reference == others[-1].fid.mean:
            lines[cost / scale] = f"{'cost' if what == 'macs' else 'time'} of {clean(one.reference.short_label, 20)}"
        with marks_of(one.row.label, axes):
            _bridge(axes, cost / scale, row, reference, difference.mean)
    for x, label in lines.items():
        axes.axvline(x, color=MUTED, linewidth=1, linestyle=(0, (4, 3)), zorder=0.6)
        axes.annotate(label, (x, 1), (-4, -2), xycoords=axes.get_xaxis_transform(), textcoords="offset points",
                      ha="right", va="top", color=MUTED, size=8)  # fmt: skip


def _at(cost: float, points: Sequence[CostPoint], what: str, tolerance: float) -> float | None:
    """The mean FID that was evaluated there; None where the curve is read between its points."""
    found = [point for point in points if abs((getattr(point, what) or 0) / cost - 1) <= tolerance]
    return found[-1].fid.mean if found else None


def _bridge(axes: Axes, x: float, row: float | None, reference: float | None, difference: float) -> None:
    """From the row to its reference: rings where they were evaluated, a tick where a curve is read."""
    if row is None and reference is None:
        return
    ends = (
        row if row is not None else (reference or 0.0) + difference,
        reference if reference is not None else (row or 0.0) - difference,
    )
    axes.plot([x, x], ends, color=MUTED, linewidth=1.4, zorder=0.8)
    for end, evaluated in zip(ends, (row, reference), strict=True):
        axes.plot([x], [end], **(_TICK if evaluated is None else _RING))


_TICK: dict[str, Any] = {"marker": "_", "markersize": 9, "markeredgewidth": 1.4, "color": MUTED, "linestyle": "none"}
_RING: dict[str, Any] = {"marker": "o", "markersize": 12, "fillstyle": "none", "color": MUTED, "linestyle": "none"}


def _style_axes(axes: Axes) -> None:
    """After all lines are drawn: on a logarithmic axis seaborn would average logarithms."""
    axes.set(xlim=(0, None))
    logarithmic(axes)


def _t_interval(values: Sequence[float]) -> tuple[float, float]:
    estimate = mean_interval(values)
    return estimate.bounds or (estimate.mean, estimate.mean)
