"""Dense validation loss, and FID where it was measured, against the learning rates that were tried, a line per row."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tread_bench.core.numbers.tuning import Best
from tread_bench.core.stored.records import Candidate, Tuning
from tread_bench.reports.figures.drawing import grid
from tread_bench.reports.figures.picture import Picture, picture_of
from tread_bench.reports.figures.style import MUTED, SURFACE, Look, clean, looks, marks_of
from tread_bench.reports.rows.row import Row
from tread_bench.reports.text.numbers import DASH, decimals, number

_MOST = 12  # lines in a panel
_KINDS = {"validation_losses": "dense validation loss", "fids": "FID"}


def learning_rates(rows: Sequence[Row], suffix: str = "") -> Picture | None:
    """Draw the candidates of every row whose learning rate was chosen; None without any."""
    # Rows with a choice, and the panels.
    tuned = [(row, row.tuning) for row in rows if row.tuning is not None and row.tuning.best is not None]
    if not tuned:
        return None
    figure = _lines(tuned)

    # The table behind the picture.
    places = decimals(fmean(one.validation_losses) for _, tuning in tuned for one in _measured(tuning))
    numbers = [_numbers(row, tuning, one, places) for row, tuning in tuned for one in tuning.candidates]
    chosen = [(row.short_label, tuning.best.value, row.is_untuned) for row, tuning in tuned if tuning.best]
    seeds, all_rows = len(tuned[0][1].seeds), len(tuned)
    drawn = min(_MOST, all_rows)
    return picture_of("tuning", figure, numbers, suffix, chosen=chosen, seeds=seeds, drawn=drawn, all=all_rows)


def _lines(tuned: Sequence[tuple[Row, Tuning]]) -> Figure:
    """A line per row over its candidates, in a panel for each figure that is known."""
    candidates = [one for _, tuning in tuned for one in tuning.candidates]
    kinds = [kind for kind in _KINDS if any(getattr(one, kind) for one in candidates)]
    figure, panels = grid(len(kinds), 3.6, columns=2)
    drawn = tuned[:_MOST]
    for (row, tuning), look in zip(drawn, looks(row.is_dense for row, _ in drawn), strict=True):
        for axes, kind in zip(panels, kinds, strict=True):
            points = {one.learning_rate: of_seeds for one in tuning.candidates if (of_seeds := getattr(one, kind))}
            with marks_of(row.label, axes):
                _line(axes, row, points, tuning.best, look)
    ticks = sorted({one.learning_rate for one in candidates})
    for axes, kind in zip(panels, kinds, strict=True):
        axes.set(xscale="log", xlabel="learning rate")
        axes.set_ylabel(_KINDS[kind], color=MUTED)
        axes.set_xticks(ticks, [f"{value:g}" for value in ticks], minor=False)
        axes.minorticks_off()
    panels[0].legend(loc="best", fontsize=8)
    return figure


def _measured(tuning: Tuning) -> list[Candidate]:
    return [one for one in tuning.candidates if one.validation_losses]


def _line(axes: Axes, row: Row, points: Mapping[float, Sequence[float]], best: Best | None, look: Look) -> None:
    """Means over the seeds joined by a line, the seeds as dots; the best one is larger, hollow at an edge."""
    colour, marker = look
    axes.plot([*points], [fmean(found) for found in points.values()], color=colour, marker=marker,
              markersize=4, linewidth=1.2, label=clean(row.short_label))  # fmt: skip
    for value, found in points.items():
        axes.plot([value] * len(found), found, color=colour, marker=".", markersize=3, linestyle="none", alpha=0.6)
        if best and value == best.value:
            fill = colour if best.is_bracketed else SURFACE
            axes.plot([value], [fmean(found)], color=colour, marker=marker, markersize=10, markerfacecolor=fill,
                      markeredgewidth=1.6, linestyle="none")  # fmt: skip


def _numbers(row: Row, tuning: Tuning, one: Candidate, places: int) -> dict[str, str]:
    loss = one.loss
    shown = DASH if loss is None else "diverged" if math.isinf(loss) else number(loss, places)
    return {
        "row": row.label,
        "learning rate": f"{one.learning_rate:g}",
        "dense validation loss": shown,
        "FID": number(fmean(one.fids), 2) if one.fids else DASH,
        "trained on": f"{len(one.validation_losses)} of {len(one.cells)} seeds",
        "chosen": _marked(tuning.best, one.learning_rate),
    }


def _marked(best: Best | None, value: float) -> str:
    """Whether a value is the best one, in a column."""
    if best is None or value != best.value:
        return ""
    return "yes" if best.is_bracketed else "yes, at the edge"
