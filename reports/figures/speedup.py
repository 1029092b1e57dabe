"""How much of the ideal gain in speed is achieved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.figure import Figure

from tread_bench.reports.comparison import Row
from tread_bench.reports.figures import style
from tread_bench.reports.figures.style import MUTED, SURFACE, Picture, clean
from tread_bench.reports.numbers import number


class _Line(NamedTuple):
    row: Row
    ideal: float
    achieved: tuple[float, float, float]  # ratio, low, high


def speedups(rows: Sequence[Row], suffix: str = "") -> Picture | None:
    """Achieved against ideal speed-up of a training step, with intervals; points on the line have no overhead.

    With several architectures they are shown with the gains by family.
    """
    known = ((row, row.cost("ideal_speedup"), row.speedup) for row in rows)
    lines = [_Line(row, ideal, achieved) for row, ideal, achieved in known if ideal and achieved]
    if not any(line.row.spans for line in lines) or len({row.group for row in rows}) > 1:
        return None
    svg, png = style.save(_figure(lines))
    table = [(row.label, number(ideal), *(number(v, 3) for v in achieved)) for row, ideal, achieved in lines]
    return Picture(
        name=f"speedup{suffix}", title="Achieved against ideal speed-up", svg=svg, png=png, table=table,
        headers=("row", "ideal", "achieved", "95 % low", "95 % high"),
        description="; ".join("{}: ideal {}, achieved {} [{}, {}]".format(*line) for line in table),
        caption="Training steps timed alone, interleaved with the dense reference; 95 % bootstrap intervals of the "
        "median ratio. Below the solid line time is lost to overhead; dense against itself is the control and should "
        "be at 1.",
    )  # fmt: skip


def _figure(lines: Sequence[_Line]) -> Figure:
    figure = Figure(figsize=(6.4, max(3.9, 0.24 * len(lines) + 1.2)), layout="constrained")
    axes = figure.subplots()
    ends = [value for line in lines for value in (line.ideal, *line.achieved)]
    margin = 0.06 * (max(ends) - min(*ends, 0.95))
    low, high = min(*ends, 0.95) - margin, max(ends) + margin
    axes.plot([low, high], [low, high], color=MUTED, linewidth=1, zorder=0.9, label="ideal")
    axes.axhline(1, color=MUTED, linewidth=1, linestyle=(0, (2, 3)), zorder=0.9, label="as fast as dense")
    for line, (colour, marker) in zip(lines, style.looks(line.row.is_dense for line in lines), strict=True):
        ratio, bottom, top = line.achieved
        axes.errorbar(
            line.ideal, ratio, yerr=[[ratio - bottom], [top - ratio]], color=colour, marker=marker, markersize=7,
            markeredgecolor=SURFACE, markeredgewidth=0.8, linestyle="none", elinewidth=1.6, label=clean(line.row.label),
        )  # fmt: skip
    axes.set(xlim=(low, high), ylim=(low, high), aspect="equal", anchor="W")
    axes.set(xlabel="ideal speed-up (dense / routed forward MACs)", ylabel="achieved speed-up of a training step")
    axes.yaxis.label.set_color(MUTED)
    axes.legend(loc="upper left", bbox_to_anchor=(1.02, 1))
    return figure
