"""What a route does at several depths: TREAD's absolute rule against its relative one."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tread_bench.core.numbers.statistics import MeanInterval
from tread_bench.reports.claims.depths import Line, lines_of
from tread_bench.reports.figures.drawing import estimated
from tread_bench.reports.figures.lines import Point, aside, draw_line
from tread_bench.reports.figures.picture import Picture, picture_of
from tread_bench.reports.figures.style import MUTED, clean, looks
from tread_bench.reports.rows.row import Row
from tread_bench.reports.text.numbers import decimals, number


def depths(rows: Sequence[Row], suffix: str = "") -> Picture | None:
    """FID difference to the dense row of the same depth, a line per rule."""
    lines = lines_of(rows)
    if not lines:
        return None
    places = decimals(row.fid.mean for line in lines for row, _ in line.points if row.fid)
    numbers = [_numbers(line, row, difference, places) for line in lines for row, difference in line.points]
    return picture_of("depths", _figure(lines), numbers, suffix, is_open=True, lines=lines, places=places)


def _numbers(line: Line, row: Row, difference: MeanInterval, places: int) -> dict[str, str]:
    return {
        "row": row.label,
        "rule": line.rule,
        "blocks": str(row.blocks),
        "routes": row.first.routes,
        **estimated("FID", row.fid, places),
        **estimated("difference to own dense", difference, places, signed=True),
        "seeds": str(difference.n),
        "ideal speed-up": number(row.ideal_speedup),
    }


def _figure(lines: Sequence[Line]) -> Figure:
    families = list(dict.fromkeys(line.family for line in lines))
    figure = Figure(figsize=(9.6, 3.5), layout="constrained")
    panels = figure.subplots(1, len(families), squeeze=False)[0]
    for family, axes in zip(families, panels, strict=True):
        _panel(axes, [line for line in lines if line.family == family])
        axes.set_title(clean(family))
    panels[0].set_ylabel("FID difference to own dense (lower is better)", color=MUTED)
    return figure


def _panel(axes: Axes, lines: Sequence[Line]) -> None:
    for k, (one, look) in enumerate(zip(lines, looks([False] * len(lines)), strict=True)):
        points = []
        for row, difference in one.points:
            shared = sorted(row.scores["fid"].keys() & row.references["fid"].keys())
            seeds = [row.scores["fid"][seed] - row.references["fid"][seed] for seed in shared]
            points.append(Point(row, row.blocks + 0.12 * aside(k, len(lines)), difference, seeds))
        draw_line(axes, points, look, one.rule)
    axes.axhline(0, color=MUTED, linewidth=1, zorder=0.5)
    axes.set_xticks(sorted({row.blocks for line in lines for row, _ in line.points}))
    axes.set_xlabel("blocks")
    axes.legend(loc="best", fontsize=8)
