"""Dense validation loss, and FID where it was measured, against learning rate: a line per row, its best one marked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from matplotlib.axes import Axes

from tread_bench.core.stored.records import Candidate, Tuning
from tread_bench.reports.figures.drawing import grid
from tread_bench.reports.figures.picture import Picture, picture_of
from tread_bench.reports.figures.style import MUTED, SURFACE, Look, clean, looks, marks_of
from tread_bench.reports.rows.row import Row
from tread_bench.reports.text.numbers import DASH, decimals, number

_MOST = 12  # lines in a panel


def learning_rates(rows: Sequence[Row], suffix: str = "") -> Picture | None:
    """Draw the candidates of every row whose learning rate was chosen; None without any."""
    # Rows with a choice, and the panels.
    tuned = [(row, row.tuning) for row in rows if row.tuning is not None and row.tuning.best is not None]
    if not tuned:
        return None
    has_fid = any(one.fids for _, tuning in tuned for one in tuning.candidates)
    figure, panels = grid(1 + has_fid, 3.6, columns=2)

    # A line per row, over the rates that were tried.
    drawn = tuned[:_MOST]
    for (row, tuning), look in zip(drawn, looks(row.is_dense for row, _ in drawn), strict=True):
        for axes, values in zip(panels, ("validation_losses", "fids"), strict=False):
            with marks_of(row.label, axes):
                _line(axes, row, tuning, values, look)
    for axes, name in zip(panels, ("dense validation loss", "FID"), strict=False):
        axes.set(xscale="log", xlabel="learning rate")
        axes.set_ylabel(name, color=MUTED)
    rates = sorted({one.learning_rate for _, tuning in tuned for one in tuning.candidates})
    for axes in panels:
        axes.set_xticks(rates, [f"{rate:g}" for rate in rates], minor=False)
        axes.minorticks_off()
    panels[0].legend(loc="best", fontsize=8)

    # The table behind the picture.
    places = decimals(fmean(one.validation_losses) for _, tuning in tuned for one in _measured(tuning))
    numbers = [_numbers(row, tuning, one, places) for row, tuning in tuned for one in tuning.candidates]
    chosen = [(row.short_label, tuning.best.rate, row.is_untuned) for row, tuning in tuned if tuning.best]
    seeds, all_rows = len(tuned[0][1].seeds), len(tuned)
    return picture_of("tuning", figure, numbers, suffix, chosen=chosen, seeds=seeds, drawn=len(drawn), all=all_rows)


def _measured(tuning: Tuning) -> list[Candidate]:
    return [one for one in tuning.candidates if one.validation_losses]


def _line(axes: Axes, row: Row, tuning: Tuning, values: str, look: Look) -> None:
    """Means over the tuning seeds joined by a line, the seeds as dots; the chosen one is larger, hollow at an edge."""
    colour, marker = look
    points = [(one.learning_rate, getattr(one, values)) for one in tuning.candidates if getattr(one, values)]
    axes.plot([rate for rate, _ in points], [fmean(found) for _, found in points], color=colour, marker=marker,
              markersize=4, linewidth=1.2, label=clean(row.short_label))  # fmt: skip
    for rate, found in points:
        axes.plot([rate] * len(found), found, color=colour, marker=".", markersize=3, linestyle="none", alpha=0.6)
        if tuning.best and rate == tuning.best.rate:
            fill = colour if tuning.best.is_bracketed else SURFACE
            axes.plot([rate], [fmean(found)], color=colour, marker=marker, markersize=10, markerfacecolor=fill,
                      markeredgewidth=1.6, linestyle="none")  # fmt: skip


def _numbers(row: Row, tuning: Tuning, one: Candidate, places: int) -> dict[str, str]:
    loss = one.loss
    shown = DASH if loss is None else "diverged" if math.isinf(loss) else number(loss, places)
    is_best = tuning.best is not None and one.learning_rate == tuning.best.rate
    return {
        "row": row.label,
        "learning rate": f"{one.learning_rate:g}",
        "dense validation loss": shown,
        "FID": number(fmean(one.fids), 2) if one.fids else DASH,
        "trained on": f"{len(one.validation_losses)} of {len(one.cells)} seeds",
        "chosen": ("yes, at the edge" if row.is_untuned else "yes") if is_best else "",
    }
