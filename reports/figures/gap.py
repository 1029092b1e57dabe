"""What separates training from inference: a trained network run with ever more of its tokens on the bypass."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from reports.comparison import Row
from reports.figures import style
from reports.figures.marks import cells, upright
from reports.figures.style import INK, MUTED, Picture, clean
from reports.numbers import decimals, number
from tread_bench.records import RoutedFigures
from tread_bench.statistics import Estimate, mean_interval

PUBLISHED_RATES = (0.5, 0.9)  # strong and weak branch of Sparse Guidance (Krause et al. 2026)


class Point(NamedTuple):
    """A row at one rate, over seeds."""

    row: Row
    rate: float
    loss: Estimate
    excess: list[float]  # over the loss at rate 0, of each seed
    cosine: Estimate  # of routed to dense outputs, mean over the blocks
    lowest: float  # of a block, mean over seeds

    @property
    def gap(self) -> Estimate:
        return mean_interval(self.excess)


def gap(rows: Sequence[Row], suffix: str = "") -> Picture | None:
    """Validation loss at each rate beyond that of the dense network, and how alike routed and dense outputs are."""
    points = [point for row in rows for point in points_of(row)]
    if not points:
        return None
    places = decimals(point.loss.mean for point in points) + 1
    svg, png = style.save(_figure(points))
    return Picture(
        name=f"gap{suffix}", title="Gap between training and inference", svg=svg, png=png,
        headers=("row", "rate γ", "validation loss", "95 % interval", "beyond dense", "95 % interval", "seeds",
                 "mean similarity", "lowest of a block"),
        table=[_numbers(point, places) for point in points],
        description="Validation loss beyond dense by rate. "
        + "; ".join(f"{row.label}: {_words(row, points, places)}" for row in _rows(points)),
        caption="The trained network run routed at rate γ, judged on the held-out images of the validation loss: loss "
        "at γ minus loss at 0, paired over seeds, and the cosine similarity of each block’s routed output to its dense "
        "one, mean over present tokens, images, times and blocks. Marks are means with 95 % t intervals, small dots "
        "the seeds. Sparse Guidance needs a strong branch that stays near 0 and a weak one that does not; dotted "
        "lines are the rates 0.5 and 0.9 that its authors use.",
    )  # fmt: skip


def points_of(row: Row) -> list[Point]:
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


def _point(row: Row, rate: float, seeds: Sequence[RoutedFigures], dense: Sequence[float]) -> Point:
    cosines = [sum(at.cosine) / len(at.cosine) for at in seeds]
    per_block = [sum(block) / len(block) for block in zip(*(at.cosine for at in seeds), strict=True)]
    return Point(
        row, rate, mean_interval([at.validation_loss for at in seeds]),
        [at.validation_loss - own for at, own in zip(seeds, dense, strict=True)],
        mean_interval(cosines), min(per_block),
    )  # fmt: skip


def _rows(points: Sequence[Point]) -> list[Row]:
    return [row for row, _ in groupby(points, lambda point: point.row)]


def _words(row: Row, points: Sequence[Point], places: int) -> str:
    own = [point for point in points if point.row is row]
    return ", ".join(f"{number(point.gap.mean, places, True)} at {point.rate:g}" for point in own)


def _numbers(point: Point, places: int) -> tuple[str, ...]:
    return (
        point.row.label, f"{point.rate:g}", *cells(point.loss, places), *cells(point.gap, places, signed=True),
        str(point.loss.n), number(point.cosine.mean, 3), number(point.lowest, 3),
    )  # fmt: skip


def _figure(points: Sequence[Point]) -> Figure:
    rows = _rows(points)
    figure = Figure(figsize=(9.6, max(3.5, 0.26 * len(rows) + 0.8)), layout="constrained")
    loss, alike = figure.subplots(1, 2)
    looks = style.looks(row.is_dense for row in rows)
    for row, (colour, marker) in zip(rows, looks, strict=True):
        own = [point for point in points if point.row is row]
        for axes, means in ((loss, [p.gap.mean for p in own]), (alike, [p.cosine.mean for p in own])):
            axes.plot([point.rate for point in own], means, color=colour, linewidth=1.2)
        for point in own:
            upright(loss, point.rate, point.gap, colour, marker, point.excess)
            upright(alike, point.rate, point.cosine, colour, marker)
    _settle(loss, "validation loss at γ minus at 0")
    _settle(alike, "similarity of routed to dense outputs")
    handles = [
        Line2D([], [], color=c, marker=m, label=clean(row.label)) for row, (c, m) in zip(rows, looks, strict=True)
    ]
    figure.legend(handles=handles, loc="outside right upper")
    return figure


def _settle(axes: Axes, what: str) -> None:
    for rate in PUBLISHED_RATES:
        axes.axvline(rate, color=MUTED, linewidth=1, linestyle=(0, (1, 2)), zorder=0.5)
    axes.set_title(what, color=INK)
    axes.set_xlabel("rate γ: share of tokens that bypasses")
    axes.tick_params(length=0)
    axes.locator_params(nbins=6)
