"""What of the ideal gain in speed arrives."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from reports.comparison import Row
from reports.figures import style
from reports.figures.style import MUTED, SURFACE, Picture, clean
from reports.numbers import number


def speedups(rows: Sequence[Row], suffix: str = "") -> Picture | None:
    """Achieved against ideal speed-up of a training step, with intervals; on the line nothing is lost to overhead."""
    rows = [row for row in rows if row.speedup and row.cost("ideal_speedup")]
    if not any(row.first.routes for row in rows):
        return None
    figure = Figure(figsize=(6.4, max(3.9, 0.24 * len(rows) + 1.2)), layout="constrained")
    axes = figure.subplots()
    ends = [value for row in rows for value in (row.cost("ideal_speedup"), *row.speedup)]
    low, high = min(*ends, 0.95), max(ends)
    low, high = low - 0.06 * (high - low), high + 0.06 * (high - low)
    axes.plot([low, high], [low, high], color=MUTED, linewidth=1, zorder=0.9, label="ideal")
    axes.axhline(1, color=MUTED, linewidth=1, linestyle=(0, (2, 3)), zorder=0.9, label="as fast as dense")
    for row, (colour, marker) in zip(rows, style.looks(row.is_dense for row in rows), strict=True):
        ratio, bottom, top = row.speedup
        axes.errorbar(
            row.cost("ideal_speedup"), ratio, yerr=[[ratio - bottom], [top - ratio]], color=colour, marker=marker,
            markersize=7, markeredgecolor=SURFACE, markeredgewidth=0.8, linestyle="none", elinewidth=1.6, label=clean(row.label),
        )  # fmt: skip
    axes.set(xlim=(low, high), ylim=(low, high), aspect="equal", anchor="W")
    axes.set(xlabel="ideal speed-up (dense / routed forward MACs)", ylabel="achieved speed-up of a training step")
    axes.yaxis.label.set_color(MUTED)
    axes.legend(loc="upper left", bbox_to_anchor=(1.02, 1))
    svg, png = style.save(figure)
    table = [(row.label, number(row.cost("ideal_speedup")), *(number(v, 3) for v in row.speedup)) for row in rows]
    return Picture(
        name=f"speedup{suffix}", title="Achieved against ideal speed-up", svg=svg, png=png, table=table,
        headers=("row", "ideal", "achieved", "95 % low", "95 % high"),
        description="; ".join(f"{line[0]}: ideal {line[1]}, achieved {line[2]} [{line[3]}, {line[4]}]" for line in table),
        caption="Training steps timed alone, interleaved with the dense reference; 95 % bootstrap intervals of the median ratio. "
        "Below the solid line time is lost to overhead; the dense row against itself is the control and should sit at 1.",
    )  # fmt: skip
