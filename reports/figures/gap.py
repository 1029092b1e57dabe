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
from tread_bench.reports.figures.drawing import cells, upright
from tread_bench.reports.figures.style import INK, MUTED, Picture, clean, marks_of
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

    # Their picture, and what they give for Sparse Guidance.
    places = decimals(point.loss.mean for point in points) + 1
    found = _with_rates(points)
    of_guidance = "; ".join(f"{own[0].row.label}: {_pair(rates)}" for own, rates in found)
    return Picture(
        name=f"gap{suffix}", title="Gap between training and inference", files=style.save(_figure(found)),
        headers=("row", "rate γ", "validation loss", "95 % interval", "beyond dense", "95 % interval", "seeds",
                 "branch of Sparse Guidance", "mean similarity", "lowest of a block"),
        table=[_numbers(point, places, rates) for own, rates in found for point in own],
        description="Validation loss beyond dense by rate. "
        + "; ".join(f"{own[0].row.label}: {_words(own, places)}" for own, _ in found)
        + f". Rates for Sparse Guidance, strong and weak: {of_guidance}.",
        caption="The trained network run routed at rate γ, evaluated on the held-out images of the validation loss: "
        "loss at γ minus loss at 0, paired over seeds, and the cosine similarity of each block’s routed output to its "
        "dense one, mean over present tokens, images, times and blocks. Marks are means with 95 % t intervals, dots "
        "the seeds. Sparse Guidance needs a strong branch that stays near 0 and a weak one that does not. By our "
        "reading its strong rate (in a circle) is the largest whose mean loss is at most "
        f"{100 * STRONG_EXCESS:g} % above the row’s smallest, its weak one (in a square) the smallest above that whose "
        f"mean loss is at least {100 * WEAK_EXCESS:g} % above, else the largest measured. This gives, strong and weak: "
        f"{of_guidance}. Dotted lines are the rates 0.5 and 0.9 that its authors use.",
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


def _words(own: Sequence[GapPoint], places: int) -> str:
    return ", ".join(f"{number(point.gap.mean, places, True)} at {point.rate:g}" for point in own)


def _pair(rates: GuidanceRates | None) -> str:
    if rates is None:
        return "none, since the loss is still low at the largest rate measured"
    return f"{rates.strong:g} and {rates.weak:g}{'' if rates.is_clearly_weak else ' (the largest measured)'}"


def _branch(rate: float, rates: GuidanceRates | None) -> str:
    """The branch whose rate it is: strong, weak or ""."""
    if rates is None or rate not in rates[:2]:
        return ""
    return "strong" if rate == rates.strong else "weak"


def _numbers(point: GapPoint, places: int, rates: GuidanceRates | None) -> tuple[str, ...]:
    return (
        point.row.label, f"{point.rate:g}", *cells(point.loss, places), *cells(point.gap, places, signed=True),
        str(point.loss.n), _branch(point.rate, rates) or DASH, number(point.cosine.mean, 3), number(point.lowest, 3),
    )  # fmt: skip


def _figure(found: Sequence[_Own]) -> Figure:
    # A line for each row in both panels.
    figure = Figure(figsize=(9.6, max(3.5, 0.26 * len(found) + 1.3)), layout="constrained")
    loss, alike = figure.subplots(1, 2)
    looks = style.looks(own[0].row.is_dense for own, _ in found)
    for (own, rates), (colour, marker) in zip(found, looks, strict=True):
        with marks_of(own[0].row.label, loss, alike):
            for axes, means in ((loss, [p.gap.mean for p in own]), (alike, [p.cosine.mean for p in own])):
                axes.plot([point.rate for point in own], means, color=colour, linewidth=1.2)
            for point in own:
                upright(loss, point.rate, point.gap, colour, marker, point.excess)
                upright(alike, point.rate, point.cosine, colour, marker)
                branch = _branch(point.rate, rates)
                if branch:
                    loss.plot([point.rate], [point.gap.mean], color=colour, **_ring(branch))
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
    axes.tick_params(length=0)
    axes.locator_params(nbins=6)
