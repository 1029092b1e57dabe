"""The FIDs of the same rows in several runs, with their difference to an earlier run."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tread_bench.reports.claims.compare import Change, Difference
from tread_bench.reports.figures import style
from tread_bench.reports.figures.drawing import dot, style_forest
from tread_bench.reports.figures.picture import Picture, picture_of
from tread_bench.reports.figures.style import BETTER, MUTED, WORSE, clean
from tread_bench.reports.text.numbers import decimals, words

_COLOURS: dict[Change, str] = {"lower": BETTER, "higher": WORSE}
_LINE, _TOP, _BOTTOM = 0.25, 0.3, 0.5  # inches
_WIDTH, _LEFT, _RIGHT = 9.6, 3.6, 2.2


def run_differences(found: Sequence[Difference], exports: bool = False) -> Picture | None:
    """Draw a forest plot: a line for each row and later run; `exports` adds a PNG and a PDF to the SVG.

    Rows whose FID is the same in every seed have nothing to show.
    """
    compared = [one for one in found if one.fid and not one.is_identical]
    if not compared:
        return None
    places = decimals(one.of.row.fid.mean for one in compared if one.of.row.fid)
    numbers = [
        {"row": line_name(one, compared), "difference in FID": words(one.fid, places), "outcome": one.outcome}
        for one in compared
    ]
    with style.theme(exports):
        return picture_of("run_differences", _figure(compared, places), numbers)


def line_name(one: Difference, all_of_page: Sequence[Difference]) -> str:
    """Return the row, with the two runs where there are several pairs."""
    pairs = {(each.of.run.name, each.to.run.name) for each in all_of_page}
    return one.of.row.name + (f", {one.of.run.name} − {one.to.run.name}" if len(pairs) > 1 else "")


def _figure(compared: Sequence[Difference], places: int) -> Figure:
    height = _TOP + len(compared) * _LINE + _BOTTOM
    figure = Figure(figsize=(_WIDTH, height))
    share = (_LEFT / _WIDTH, _BOTTOM / height, 1 - (_LEFT + _RIGHT) / _WIDTH, len(compared) * _LINE / height)
    axes = figure.add_axes(share)
    style_forest(axes, 0)
    for place, one in enumerate(compared):
        if one.fid:
            dot(axes, place, one.fid.mean, one.fid.bounds, _COLOURS.get(one.outcome, MUTED))
        _write(axes, place, 0, clean(line_name(one, compared), 52))
        _write(axes, place, 1, words(one.fid, places))
    axes.set(ylim=(len(compared) - 0.5, -0.5), xlabel="difference in FID, lower is better")
    return figure


def _write(axes: Axes, place: int, side: int, text: str) -> None:
    """Text left (0) or right (1) of a line."""
    axes.annotate(text, (side, place), (16 * side - 8, 0), ha=("right", "left")[side], va="center", size=8.5,
                  xycoords=axes.get_yaxis_transform(), textcoords="offset points")  # fmt: skip
