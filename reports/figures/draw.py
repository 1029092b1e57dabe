"""Every figure that is lines or a forest over a frame: a `Figure` says what is drawn, and this module how.

Looks in light and dark, names of lines, marks that belong to rows, and the numbers behind a picture are solved once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullLocator

from tread_bench.core.numbers.statistics import MeanInterval, mean_interval
from tread_bench.reports.figure import Figure
from tread_bench.reports.figures.picture import Picture, picture_of
from tread_bench.reports.figures.style import INK, MUTED, PATTERNS, SURFACE, Look, clean, looks, tone
from tread_bench.reports.text.numbers import DASH, decimals, interval, number

MOST = 18  # lines in a panel of lines
MOST_ROWS = 30  # rows of a forest
_COLUMNS = 3  # panels side by side
_WIDTH = 9.6  # inches
_LINE = 0.26  # inches from one row of a forest to the next


class _Point(NamedTuple):
    panel: str
    hue: str
    row: str
    is_dense: bool
    place: float | str  # on the axis that is not measured
    estimate: MeanInterval
    ideal: float
    extra: tuple[str, ...]


def draw(figure: Figure) -> Picture | None:
    """Return the picture; None where there is nothing to draw."""
    points = _points(figure)
    if not points:
        return None
    panels = list(dict.fromkeys(point.panel for point in points))

    # As many lines as can be told apart, with dense and those that end lowest, or highest, in the first panel.
    last_panel_first = sorted(points, key=lambda point: -panels.index(point.panel))
    sign = -1 if figure.highest_first else 1
    ends = {point.hue: sign * point.estimate.mean for point in last_panel_first}
    ordered = sorted(ends, key=lambda hue: (not any(p.is_dense for p in points if p.hue == hue), ends[hue]))
    most, made_by = (MOST_ROWS, _forest) if figure.is_forest else (MOST, _lines)
    chosen = set(ordered[:most])
    drawn = [point for point in points if point.hue in chosen]
    left_out = len(ends) - len(chosen)
    rest = f" Drawn: {len(chosen)} of {len(ends)}; the numbers have all." if left_out else ""

    return picture_of(
        figure.name, figure.title, f"{figure.caption}{rest}".strip(), _described(figure, drawn),
        made_by(figure, drawn, panels), _numbers(figure, points),
    )  # fmt: skip


def _points(figure: Figure) -> list[_Point]:
    """Means and intervals, in the order of the lines."""
    # Finite figures, of lines that share all but the seed.
    value, place = figure.value, figure.place
    keys = [name for name in dict.fromkeys((figure.panel, figure.hue, "row", place)) if name]
    others = {value, figure.low, figure.high, figure.ideal, "is_dense", "seeds", *figure.extra}
    columns = [*keys, *sorted(others.intersection(figure.lines.columns).difference(keys))]
    finite = figure.lines[np.isfinite(figure.lines[value].astype("float64"))]
    by_point: dict[tuple[object, ...], list[dict[str, Any]]] = {}
    for line in finite[columns].to_dict("records"):
        by_point.setdefault(tuple(line[key] for key in keys), []).append(line)

    # A point of each: its interval as the lines state it, or over them.
    points = []
    for same in by_point.values():
        first = same[0]
        if figure.low:
            low, high = first[figure.low], first[figure.high]
            if pd.isna(low):
                low, high = None, None
            estimate = MeanInterval(float(first[value]), low, high, int(first.get("seeds", len(same))))
        else:
            estimate = mean_interval([line[value] for line in same])
        points.append(
            _Point(
                panel=str(first[figure.panel]) if figure.panel else "",
                hue=str(first[figure.hue]),
                row=str(first["row"]),
                is_dense=bool(first.get("is_dense", False)),
                place=str(first[place]) if figure.is_forest else float(first[place]),
                estimate=estimate,
                ideal=float(first[figure.ideal]) if figure.ideal and pd.notna(first[figure.ideal]) else math.nan,
                extra=tuple(_shown(first[column]) for column in figure.extra),
            )
        )
    return points


def _shown(value: object) -> str:
    if isinstance(value, str):
        return value or DASH
    return DASH if pd.isna(value) else f"{value:,.4g}"


def _lines(figure: Figure, points: Sequence[_Point], panels: Sequence[str]) -> Drawing:
    """A panel of lines for each value of `panel`, three side by side, and the names of the lines beside them."""
    hues = list(dict.fromkeys(point.hue for point in points))
    is_dense = [all(point.is_dense for point in points if point.hue == hue) for hue in hues]
    look_of = dict(zip(hues, looks(is_dense), strict=True))
    rows = -(-len(panels) // _COLUMNS)
    high = max(3.4 if rows == 1 else 2.7, 0.2 * len(hues) / rows)
    is_large = len(panels) > 2 * _COLUMNS  # where it would take seconds to find a layout
    made = Drawing(figsize=(_WIDTH, high * rows + 0.3), layout=None if is_large else "constrained")
    axes_of = list(made.subplots(rows, min(_COLUMNS, len(panels)), squeeze=False).flat)
    if is_large:
        made.subplots_adjust(0.06, 0.4 / made.get_figheight(), 0.82, 1 - 0.3 / made.get_figheight(), 0.25, 0.45)
    for axes, panel in zip(axes_of, panels, strict=False):
        own = [point for point in points if point.panel == panel]
        _panel(axes, own, look_of)
        axes.set_title(clean(panel, 44))
        axes.set(xlabel=figure.titles.get(figure.x, figure.x), ylabel=figure.titles.get(figure.y, figure.y))
        if figure.still is not None:
            axes.axhline(figure.still, color=MUTED, linewidth=1, zorder=0.5)
        _scale(axes, figure, own)
    for unused in axes_of[len(panels) :]:
        unused.set_axis_off()

    # Names in the order in which lines end.
    ends = {point.hue: point.estimate.mean for point in sorted(points, key=lambda point: point.place)}
    handles = []
    for hue in sorted(hues, key=lambda hue: -ends[hue]):
        colour, marker, dashes = look_of[hue]
        name = "\n".join(wrap(clean(hue, 96), 36))
        handle = axes_of[0].plot([], [], color=colour, marker=marker, linestyle=dashes, label=name)
        handles += handle
    if len(hues) > 1:
        place = "upper right" if is_large else "outside right upper"
        made.legend(handles=handles, loc=place, fontsize=8.5)
    return made


def _panel(axes: Axes, points: Sequence[_Point], look_of: Mapping[str, Look]) -> None:
    """Lines through means, each with its interval and its row's mark; dashed, what was to be expected."""
    means = [(point.place, point.estimate.mean, point.hue) for point in points]
    sns.lineplot(
        pd.DataFrame(means, columns=["place", "mean", "hue"]), x="place", y="mean", hue="hue", style="hue",
        palette={hue: colour for hue, (colour, _, _) in look_of.items()},
        dashes={hue: PATTERNS[dashes] for hue, (_, _, dashes) in look_of.items()},
        estimator=None, linewidth=1.3, legend=False, ax=axes,
    )  # fmt: skip
    for hue, (colour, marker, _) in look_of.items():
        line = sorted((point for point in points if point.hue == hue), key=lambda point: point.place)
        places = [point.place for point in line]
        if line and not math.isnan(line[0].ideal):
            axes.plot(places, [point.ideal for point in line], color=colour, linewidth=1, linestyle="--", alpha=0.7)
        for own_colour, own_marker, is_dense in ((colour, marker, False), (INK, "o", True)):
            marked = [point for point in line if point.is_dense == is_dense]
            bounds = [(point.place, *point.estimate.bounds) for point in marked if point.estimate.bounds]
            axes.vlines(*np.reshape(bounds, (-1, 3)).T, color=own_colour, linewidth=1.4)
            axes.plot(
                [point.place for point in marked], [point.estimate.mean for point in marked], color=own_colour,
                marker=own_marker, markersize=6, linestyle="none", zorder=3, markeredgecolor=SURFACE,
                markeredgewidth=0.8,
            )  # fmt: skip


def _scale(axes: Axes, figure: Figure, points: Sequence[_Point]) -> None:
    """After all lines are drawn. Intervals of few seeds may reach far beyond the means, which fill the panel."""
    axes.locator_params(nbins=6)
    axes.locator_params(axis="x", integer=all(float(point.place).is_integer() for point in points))
    means = [point.estimate.mean for point in points if math.isfinite(point.estimate.mean)]
    if "y" in figure.logarithmic and min(means) > 0:
        axes.set(yscale="log", ylim=(min(means) / 1.25, max(means) * 1.25))
        low, high = axes.get_ylim()
        equal = MaxNLocator(6, steps=(1, 2, 5, 10))
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=12) if high >= 5 * low else equal)
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_locator(NullLocator())
    if "x" in figure.logarithmic:
        axes.set(xscale="log")
        places = sorted({float(point.place) for point in points})
        axes.xaxis.set_major_locator(FixedLocator(places[:: -(-len(places) // 6)]))
        axes.xaxis.set_major_formatter("{x:,.4g}")
        axes.xaxis.set_minor_locator(NullLocator())


def _forest(figure: Figure, points: Sequence[_Point], panels: Sequence[str]) -> Drawing:
    """Names on the left, and for each value of `panel` the estimates on their intervals."""
    names = list(dict.fromkeys(str(point.place) for point in points))
    made = Drawing(figsize=(_WIDTH, 0.9 + _LINE * len(names)), layout="constrained")
    axes_of = made.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, panel in zip(axes_of, panels, strict=True):
        for point in (point for point in points if point.panel == panel):
            y, estimate = names.index(str(point.place)), point.estimate
            colour = INK if figure.ideal or figure.still is None else tone(estimate.low, estimate.high, figure.still)
            if not math.isnan(point.ideal):
                axes.plot([point.ideal], [y], marker="|", markersize=12, markeredgewidth=1.8, color=MUTED)
            if estimate.bounds is not None:
                axes.plot(estimate.bounds, [y, y], color=colour, linewidth=2.2, solid_capstyle="butt")
            axes.plot(
                [estimate.mean], [y], marker="o", markersize=6, color=colour, markeredgecolor=SURFACE,
                markeredgewidth=0.8, linestyle="none",
            )  # fmt: skip
        if figure.still is not None:
            axes.axvline(figure.still, color=MUTED, linewidth=1, zorder=0.5)
        axes.set_title(clean(panel))
        axes.set_xlabel(figure.titles.get(figure.x, figure.x))
        axes.locator_params(axis="x", nbins=5)
        axes.spines["left"].set_visible(False)
    axes_of[0].set_yticks(range(len(names)), [clean(name, 44) for name in names])
    axes_of[0].set_ylim(len(names) - 0.5, -0.5)
    return made


def _described(figure: Figure, points: Sequence[_Point]) -> str:
    """What readers hear who cannot see the picture: what is drawn, and where each line ends."""
    value = figure.titles.get(figure.value) or figure.value
    place = "row" if figure.is_forest else figure.titles.get(figure.x) or figure.x
    places = decimals(point.estimate.mean for point in points)
    ends = {(point.panel, point.hue): number(point.estimate.mean, places) for point in points}
    said = [f"{panel + ', ' if panel else ''}{hue}: {end}" for (panel, hue), end in ends.items()]
    return f"{value} by {place}. {'; '.join(said[:24])}"


def _numbers(figure: Figure, points: Sequence[_Point]) -> list[dict[str, str]]:
    """The lines of the table under the picture."""
    value, place = figure.value, figure.place
    places = decimals(point.estimate.mean for point in points)
    signed = figure.still == 0
    measured = figure.titles.get(value) or value
    lines = []
    for point in points:
        line = {"row": point.row}
        if figure.panel and figure.panel != "row":
            line[figure.titles.get(figure.panel, figure.panel)] = point.panel or DASH
        if figure.hue not in ("row", "name", place):
            line[figure.titles.get(figure.hue, figure.hue)] = point.hue
        if not figure.is_forest:
            line[figure.titles.get(place) or place] = f"{point.place:,.6g}"
        line[measured] = number(point.estimate.mean, places, signed)
        line["95 % interval"] = interval(point.estimate, places, signed, can_be_negative=True)
        if not figure.low or "seeds" in figure.lines:
            line["seeds"] = f"{point.estimate.n}"
        if figure.ideal:
            line[figure.titles.get(figure.ideal, figure.ideal)] = number(point.ideal)
        lines.append(line | dict(zip(figure.extra.values(), point.extra, strict=True)))
    return lines
