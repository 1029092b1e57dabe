"""The FIDs of the same rows in several runs, with their difference to an earlier run."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from tread_bench.reports.claims.compare import Change, Difference
from tread_bench.reports.figures import style
from tread_bench.reports.figures.forest import Column, dot, forest, still, write
from tread_bench.reports.figures.picture import Picture, picture_of
from tread_bench.reports.figures.style import BETTER, MUTED, WORSE, clean
from tread_bench.reports.text.numbers import decimals, words

_COLOURS: dict[Change, str] = {"lower": BETTER, "higher": WORSE}


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
    names = [clean(line_name(one, compared), 52) for one in compared]
    figure, ((axes, sizes),) = forest([names], (Column(1), Column(2.2, "difference [95 % interval]")))
    still(axes, 0)
    for y, one in enumerate(compared):
        if one.fid:
            dot(axes, y, one.fid.mean, one.fid.bounds, _COLOURS.get(one.outcome, MUTED))
        write(sizes, y, words(one.fid, places))
    axes.set_xlabel("difference in FID, lower is better")
    return figure
