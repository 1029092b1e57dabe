"""What routing does to each architecture, against its own dense row: quality and speed side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tread_bench.core.numbers.statistics import MeanInterval
from tread_bench.reports.claims.depths import lines_of as depth_lines
from tread_bench.reports.claims.published import gain_note, published_gain
from tread_bench.reports.figures.bases import Basis
from tread_bench.reports.figures.drawing import dot, speed_up, speed_ups, style_forest
from tread_bench.reports.figures.picture import Picture, picture_of
from tread_bench.reports.figures.style import INK, MUTED, RULE, clean, marks_of
from tread_bench.reports.rows import requested
from tread_bench.reports.rows.architectures import by_architecture, what_differs
from tread_bench.reports.rows.row import Row
from tread_bench.reports.text.numbers import DASH, decimals, millions, number, words

_LINE = 0.3  # inches
_BETWEEN = 0.12


class _Line(NamedTuple):
    """One routed row; `y` counts lines, `leads` marks the first of its architecture."""

    row: Row
    y: float
    leads: bool
    difference: MeanInterval | None


def routing_gain(rows: Sequence[Row], bases: Sequence[Basis], suffix: str = "") -> list[Picture]:
    """Draw a forest plot over the routed rows of several architectures, with relative speed and the published gains.

    A picture at equal training cost, where rows were compared so, and one at equal iterations.
    """
    groups = {line.row.group for line in _lines(rows, None)}
    if len(groups) < 2 or (_kind(rows) == "architecture" and depth_lines(rows)):
        return []  # depths of one family have a picture of their own
    found: list[Basis | None] = [*bases]
    return [_picture(rows, basis, suffix) for basis in found or [None]]


def _picture(rows: Sequence[Row], basis: Basis | None, suffix: str) -> Picture:
    lines = _lines(rows, basis)
    places = decimals(row.fid.mean for row in rows if row.fid)
    is_published = _has_published(lines) and _is_published(basis)
    return picture_of(
        "routing_gain", _figure(lines, places, basis), [_numbers(line, rows, places, basis) for line in lines],
        suffix, basis=basis, is_open=True, lines=lines,
        kind=_kind(rows), apart=what_differs(rows), places=places,
        note=gain_note() if is_published else "",
    )  # fmt: skip


def _kind(rows: Sequence[Row]) -> str:
    """What the lines are called after."""
    return "family" if len({row.first.family for row in rows}) > 1 else what_differs(rows)


def _is_published(basis: Basis | None) -> bool:
    return basis is None or basis.is_published


def _lines(rows: Sequence[Row], basis: Basis | None) -> list[_Line]:
    lines = []
    y = 0.0
    for members in by_architecture(rows):
        routed = [row for row in members if not row.is_dense and not requested.is_evaluated_only(row.first)]
        lines += [_Line(row, y + k, k == 0, basis.shown(row) if basis else None) for k, row in enumerate(routed)]
        y += len(routed) + _BETWEEN / _LINE
    return lines


def _numbers(line: _Line, rows: Sequence[Row], places: int, basis: Basis | None) -> dict[str, str]:
    row = line.row
    dense = next((r for r in rows if r.is_dense and r.group == row.group), None)
    fids = [basis.fids.get(id(one)) if basis else one and one.fid for one in (dense, row)]
    return {
        "row": row.label,
        "parameters": millions(row.cost("params")),
        "FID, dense → routed": " → ".join(number(fid.mean if fid else None, places) for fid in fids),
        "difference [95 %]": words(line.difference, places),
        "seeds": str(line.difference.n) if line.difference else DASH,
        **speed_ups(row),
        **({"published, another protocol": _published(row)} if _is_published(basis) else {}),
    }


def _has_published(lines: Sequence[_Line]) -> bool:
    return any(published_gain(line.row) for line in lines)


def _published(row: Row) -> str:
    found = published_gain(row)
    if found is None:
        return DASH
    caveat = f"; dense: {found.caveat}" if found.caveat else ""
    return f"{number(found.difference, 2, True)} ({found.model}: {number(found.dense)} → {number(found.tread)}{caveat})"


def _figure(lines: Sequence[_Line], places: int, basis: Basis | None) -> Figure:
    figure, names, forest, speed, texts = _axes(lines)

    # A line for each row.
    for line in lines:
        with marks_of(line.row.label, names, forest, speed, texts):
            _name(names, line)
            if line.difference:
                dot(
                    forest,
                    line.y,
                    line.difference.mean,
                    line.difference.bounds,
                    basis.way(line.row) if basis else MUTED,
                )
            speed_up(speed, line.y, line.row)
            colour = INK if line.difference else MUTED
            texts.text(0.05, line.y, words(line.difference, places), va="center", color=colour)
            published = published_gain(line.row)
            if published and line.leads and _is_published(basis):
                texts.text(3.2, line.y, number(published.difference, 2, True), va="center", ha="right", color=MUTED)

    # Titles of the columns.
    texts.text(0.05, -0.95, "ΔFID [95 % interval]", va="center", color=MUTED, size=8.5)
    if _has_published(lines) and _is_published(basis):
        texts.text(3.2, -0.95, "published ΔFID", va="center", ha="right", color=MUTED, size=8.5)
    _style_axes(forest, speed, lines, basis)
    return figure


def _axes(lines: Sequence[_Line]) -> tuple[Figure, Axes, Axes, Axes, Axes]:
    """Names, intervals, speeds and words side by side; the axes of names and words count inches."""
    width, height = 9.6, _LINE * (lines[-1].y + 1) + 1.07
    label = 0.3 + 0.078 * max(len(clean(line.row.short_label, 26)) for line in lines)
    first = 0.2 + 0.085 * max(len(clean(line.row.architecture, 16)) for line in lines)
    beside = 3.3
    left = label + first
    middle = width - left - beside
    figure = Figure(figsize=(width, height))
    ratios = (left, 0.58 * middle, 0.42 * middle, beside)
    names, forest, speed, text = figure.subplots(1, 4, sharey=True, width_ratios=ratios)
    figure.subplots_adjust(left=0.01, right=1, top=1 - 0.42 / height, bottom=0.62 / height, wspace=0.05)
    for axes, extent in ((names, left), (text, beside)):
        axes.set_axis_off()
        axes.set_xlim(0, extent)
    return figure, names, forest, speed, text


def _name(axes: Axes, line: _Line) -> None:
    right = axes.get_xlim()[1] - 0.08
    if line.leads:
        axes.text(0, line.y, clean(line.row.architecture, 16), va="center", size=10)
    axes.text(right, line.y, clean(line.row.short_label, 26), va="center", ha="right", color=MUTED)


def _style_axes(forest: Axes, speed: Axes, lines: Sequence[_Line], basis: Basis | None) -> None:
    at = f"\nat {basis.words} (left is better)" if basis else ""
    forest.set(ylim=(lines[-1].y + 0.6, -0.5), xlabel=f"ΔFID to own dense{at}")
    speed.set_xlabel("speed-up")
    for axes, still in ((forest, 0), (speed, 1)):
        style_forest(axes, still)
        axes.locator_params(axis="x", nbins=6 if axes is forest else 4)
        for line in lines:
            if line.leads and line.y:
                axes.axhline(line.y - 0.5 - _BETWEEN / _LINE / 2, color=RULE, linewidth=0.6, zorder=0.4)
