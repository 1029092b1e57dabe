"""How much gradient each block gets, with and without the route: routing as deep supervision."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from tread_bench.core.numbers.statistics import MeanInterval, mean_interval
from tread_bench.reports.figures.drawing import estimated
from tread_bench.reports.figures.panels import Panels, drawn_of, is_on_route, panels
from tread_bench.reports.figures.picture import Picture, picture_of
from tread_bench.reports.figures.style import BETTER, MUTED, RULE, WORSE
from tread_bench.reports.rows.row import Row
from tread_bench.reports.text.numbers import DASH, decimals, names, number

_IN_WORDS = 3  # rows


class Curves(NamedTuple):
    """Gradient norm of every block, mean over seeds with its interval."""

    row: Row
    training: list[MeanInterval]  # of the cell's own loss
    dense: list[MeanInterval]  # of the same weights' loss without routes


def gradients(rows: Sequence[Row], suffix: str = "") -> Picture | None:
    """Gradient norm per block under the row's own training loss and under the dense loss of the same weights."""
    known = list(filter(None, map(curves_of, rows)))
    if not known:
        return None
    drawn, left_out = drawn_of(known, lambda curves: curves.row)
    ratios = [(curves.row, _ratios(curves)) for curves in known if curves.row.spans]
    return picture_of(
        "gradients", _figure(drawn), _numbers(known), suffix, left_out=left_out,
        drawn=[(curves.row, _ratios(curves)) for curves in drawn],
        told=ratios if len(ratios) <= _IN_WORDS else [],  # those of many are in the table
    )  # fmt: skip


def curves_of(row: Row) -> Curves | None:
    found = [record.gradient_norms for record in row.done if record.gradient_norms]
    if not found:
        return None
    training = zip(*(one.training for one in found), strict=True)
    dense = zip(*(one.dense for one in found), strict=True)
    return Curves(row, [mean_interval(norms) for norms in training], [mean_interval(norms) for norms in dense])


def _figure(known: Sequence[Curves]) -> Figure:
    made = panels([curves.row for curves in known], aspect=1.2, widest=2.3, left=0.42, gap=0.34)
    for axes, leads, curves in zip(made.axes, made.leads, known, strict=True):
        _panel(axes, curves)
        axes.set_ylim(0, 1.06 * _largest(curves.row, known))
        axes.tick_params(labelsize=8, labelleft=leads, labelcolor=MUTED)
    _legend(made)
    return made.figure


def _largest(row: Row, known: Sequence[Curves]) -> float:
    """The axis is shared within an architecture."""
    own = [curves for curves in known if curves.row.group.backbone == row.group.backbone]
    ends = [e.mean if e.high is None else e.high for curves in own for e in (*curves.training, *curves.dense)]
    return max(ends) or 1.0


def _panel(axes: Axes, curves: Curves) -> None:
    for first, last in curves.row.spans:
        axes.axvspan(first - 0.5, last + 0.5, color=RULE, alpha=0.5, linewidth=0, zorder=0.4)
    _curve(axes, curves.dense, BETTER, "--")
    if curves.row.spans:
        _curve(axes, curves.training, WORSE, "-")
    axes.set_xlim(-0.6, len(curves.dense) - 0.4)
    axes.set_xticks(range(0, len(curves.dense), max(1, len(curves.dense) // 4)))
    axes.locator_params(axis="y", nbins=4)
    axes.grid(axis="x", visible=False)


def _curve(axes: Axes, estimates: Sequence[MeanInterval], colour: str, line: str) -> None:
    blocks = range(len(estimates))
    bounds = np.array([e.bounds or (e.mean, e.mean) for e in estimates])
    axes.fill_between(blocks, bounds[:, 0], bounds[:, 1], color=colour, alpha=0.25, linewidth=0)
    axes.plot(blocks, [e.mean for e in estimates], color=colour, linestyle=line)


def _legend(made: Panels) -> None:
    handles = [
        Line2D([], [], color=WORSE, label="routed loss"),
        Line2D([], [], color=BETTER, linestyle="--", label="dense loss"),
        Patch(color=RULE, alpha=0.5, label="route"),
    ]
    left, bottom, _, height = made.key
    made.figure.legend(handles=handles, loc="upper left", bbox_to_anchor=(left - 0.02, bottom + height), fontsize=8.5)


def _numbers(known: Sequence[Curves]) -> list[dict[str, str]]:
    places = decimals(e.mean for curves in known for e in (*curves.training, *curves.dense))
    return [
        {
            "row": curves.row.label,
            "block": str(block),
            "on a route": "yes" if is_on_route(curves.row, block) else DASH,
            **estimated("training loss", own, places),
            **estimated("dense loss", dense, places),
            "training / dense": number(own.mean / dense.mean if dense.mean else None),
        }
        for curves in known
        for block, (own, dense) in enumerate(zip(curves.training, curves.dense, strict=True))
    ]


def _ratios(curves: Curves) -> str:
    """Routed over dense loss, for the blocks before, inside and after the routes, each a ratio of summed norms."""
    if not curves.row.spans:
        return "no route, one loss"

    # Where each block is.
    first = curves.row.spans[0][0]
    places = []
    for block in range(len(curves.dense)):
        if is_on_route(curves.row, block):
            places.append("inside")
        else:
            places.append("before" if block < first else "after")

    # A ratio for each stretch of blocks.
    words = []
    for place, members in groupby(range(len(places)), places.__getitem__):
        blocks = list(members)
        dense = sum(curves.dense[b].mean for b in blocks)
        ratio = sum(curves.training[b].mean for b in blocks) / dense if dense else None
        words.append(f"{number(ratio)} times {place} the route")
    return names(words)
