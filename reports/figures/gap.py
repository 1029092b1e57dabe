"""The gap between training and inference: a trained network run with more and more of its tokens on the bypass."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tread_bench.core.numbers.statistics import (
    STRONG_EXCESS,
    WEAK_EXCESS,
    GuidanceRates,
    MeanInterval,
    guidance_rates,
    mean_interval,
)
from tread_bench.core.stored.records import RoutedFigures
from tread_bench.reports.figures import style
from tread_bench.reports.figures.drawing import estimated
from tread_bench.reports.figures.lines import Point, draw_line
from tread_bench.reports.figures.picture import Picture, picture_of
from tread_bench.reports.figures.style import INK, MUTED, clean, marks_of
from tread_bench.reports.rows.row import Row
from tread_bench.reports.text.numbers import DASH, decimals, number

PUBLISHED_RATES = (0.5, 0.9)  # strong and weak branch of Sparse Guidance (Krause et al. 2026)
_RINGS = {"strong": "o", "weak": "s"}  # branch -> the mark around its rate


class GapPoint(NamedTuple):
    """A row at one rate, over seeds."""

    row: Row
    rate: float
    loss: MeanInterval
    excess: list[float]  # over the loss at rate 0, of each seed
    cosine: MeanInterval  # of routed to dense outputs, mean over the blocks
    lowest: float  # of a block, mean over seeds

    @property
    def gap(self) -> MeanInterval:
        return mean_interval(self.excess)


_Own = tuple[list[GapPoint], GuidanceRates | None]  # of one row: its points, and the rates that they give


def gap(rows: Sequence[Row], suffix: str = "") -> Picture | None:
    """Validation loss at each rate beyond that of the dense network, and the similarity of routed and dense outputs."""
    points = [point for row in rows for point in points_of(row)]
    if not points:
        return None

    # What they give for Sparse Guidance.
    found = _with_rates(points)
    places = decimals(point.loss.mean for point in points) + 1
    numbers = [_numbers(point, places, rates) for own, rates in found for point in own]
    return picture_of(
        "gap", _figure(found), numbers, suffix, found=found, places=places, strong_excess=STRONG_EXCESS,
        weak_excess=WEAK_EXCESS,
    )  # fmt: skip


def points_of(row: Row) -> list[GapPoint]:
    """Rates that all finished seeds of the row were run at."""
    found = [{at.rate: at for at in record.gap.rates} for record in row.done if record.gap]
    dense = [_dense_loss(record_rates, row, k) for k, record_rates in enumerate(found)]
    shared = sorted(set.intersection(*map(set, found))) if found else []
    return [_point(row, rate, [rates[rate] for rates in found], dense) for rate in shared]


def _dense_loss(rates: dict[float, RoutedFigures], row: Row, seed: int) -> float:
    """The loss at rate 0; where that was not among the rates, the cell's own."""
    if 0.0 in rates:
        return rates[0.0].validation_loss
    last = [record for record in row.done if record.gap][seed].last
    return last.validation_loss if last else float("nan")


def _point(row: Row, rate: float, seeds: Sequence[RoutedFigures], dense: Sequence[float]) -> GapPoint:
    cosines = [sum(at.cosine) / len(at.cosine) for at in seeds]
    per_block = [sum(block) / len(block) for block in zip(*(at.cosine for at in seeds), strict=True)]
    return GapPoint(
        row, rate, mean_interval([at.validation_loss for at in seeds]),
        [at.validation_loss - own for at, own in zip(seeds, dense, strict=True)],
        mean_interval(cosines), min(per_block),
    )  # fmt: skip


def _with_rates(points: Sequence[GapPoint]) -> list[_Own]:
    """The points of each row, and the rates that they give for Sparse Guidance."""
    rows = [list(own) for _, own in groupby(points, lambda point: point.row)]
    return [(own, guidance_rates({point.rate: point.loss.mean for point in own})) for own in rows]


def _branch(rate: float, rates: GuidanceRates | None) -> str:
    """The branch whose rate it is: strong, weak or ""."""
    if rates is None or rate not in rates[:2]:
        return ""
    return "strong" if rate == rates.strong else "weak"


def _numbers(point: GapPoint, places: int, rates: GuidanceRates | None) -> dict[str, str]:
    return {
        "row": point.row.label,
        "rate γ": f"{point.rate:g}",
        **estimated("validation loss", point.loss, places),
        **estimated("beyond dense", point.gap, places, signed=True),
        "seeds": str(point.loss.n),
        "branch of Sparse Guidance": _branch(point.rate, rates) or DASH,
        "mean similarity": number(point.cosine.mean, 3),
        "lowest of a block": number(point.lowest, 3),
    }


def _figure(found: Sequence[_Own]) -> Figure:
    # A line for each row in both panels.
    figure = Figure(figsize=(9.6, max(3.5, 0.26 * len(found) + 1.3)), layout="constrained")
    loss, alike = figure.subplots(1, 2)
    looks = style.looks(own[0].row.is_dense for own, _ in found)
    for (own, rates), look in zip(found, looks, strict=True):
        draw_line(loss, [Point(one.row, one.rate, one.gap, one.excess) for one in own], look)
        draw_line(alike, [Point(one.row, one.rate, one.cosine) for one in own], look)
        with marks_of(own[0].row.label, loss):
            for one in own:
                if branch := _branch(one.rate, rates):
                    loss.plot([one.rate], [one.gap.mean], color=look[0], **_ring(branch))
    _style_axes(loss, "validation loss at γ minus at 0")
    _style_axes(alike, "similarity of routed to dense outputs")

    # The legend.
    handles = []
    for (own, _), (colour, marker) in zip(found, looks, strict=True):
        handles.append(Line2D([], [], color=colour, marker=marker, label=clean(own[0].row.label)))
    if any(rates for _, rates in found):
        handles += [Line2D([], [], color=MUTED, label=f"{branch} rate", **_ring(branch, 9)) for branch in _RINGS]
    figure.legend(handles=handles, loc="outside right upper")
    return figure


def _ring(branch: str, size: float = 14) -> dict[str, Any]:
    return {"marker": _RINGS[branch], "markersize": size, "fillstyle": "none", "linestyle": "none"}


def _style_axes(axes: Axes, what: str) -> None:
    for rate in PUBLISHED_RATES:
        axes.axvline(rate, color=MUTED, linewidth=1, linestyle=(0, (1, 2)), zorder=0.5)
    axes.set_title(what, color=INK)
    axes.set_xlabel("rate γ: share of tokens that bypasses")
    axes.locator_params(nbins=6)
