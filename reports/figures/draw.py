"""Every figure that is lines or a forest over a frame: a `Figure` says what is drawn, and this module how.

Looks in light and dark, names of lines, marks that belong to rows, and the numbers behind a picture are solved once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from textwrap import wrap

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullLocator

from tread_bench.core.numbers.statistics import MeanInterval, mean_interval
from tread_bench.reports.figure import Figure
from tread_bench.reports.figures.picture import Picture
from tread_bench.reports.figures.style import INK, MUTED, PATTERNS, SURFACE, Look, clean, looks, tone
from tread_bench.reports.text.numbers import DASH, decimals, interval, number

MOST = 18  # lines in a panel of lines
MOST_ROWS = 30  # rows of a forest
_COLUMNS = 3  # panels side by side
_WIDTH = 9.6  # inches
_LINE = 0.26  # inches from one row of a forest to the next


def draw(figure: Figure) -> Picture | None:
    """Return the picture; None where there is nothing to draw."""
    points = _points(figure)
    if points.empty:
        return None
    panels = [*points.panel.unique()]

    # As many lines as can be told apart, with dense and those that end lowest, or highest, in the first panel.
    last_panel_first = points.sort_values("panel", key=lambda panel: -panel.map(panels.index), kind="stable")
    ends = last_panel_first.groupby("hue", sort=False).agg(is_dense=("is_dense", "any"), end=("mean", "last"))
    ends = ends.sort_values(["is_dense", "end"], ascending=[False, not figure.highest_first])
    most, made_by = (MOST_ROWS, _forest) if figure.is_forest else (MOST, _lines)
    drawn = points[points.hue.isin(ends.index[:most])]
    rest = f" Drawn: {most} of {len(ends)}; the numbers have all." if len(ends) > most else ""

    return Picture(
        name=figure.name, title=figure.title, caption=f"{figure.caption}{rest}".strip(),
        description=_described(figure, drawn), drawing=made_by(figure, drawn, panels), numbers=_numbers(figure, points),
    )  # fmt: skip


def _points(figure: Figure) -> pd.DataFrame:
    """Return a line per point in the order of the figure's: `panel`, `hue`, `row`, `is_dense`, `place` on the axis that
    is not measured, `estimate` with its `mean`, `low`, `high` and `n`, `ideal`, and the columns of `extra`.
    """
    # Finite figures; a point is of all lines that share everything but the seed.
    keys = [name for name in dict.fromkeys((figure.panel, figure.hue, "row", figure.place)) if name]
    finite = figure.lines[np.isfinite(figure.lines[figure.value].astype("float64"))]
    first = finite.drop_duplicates(keys).reset_index(drop=True)

    # Its interval as the lines state it, or over them.
    estimates = []
    if figure.low:
        seeds = first.get("seeds", pd.Series(1, first.index))
        for mean, low, high, n in zip(first[figure.value], first[figure.low], first[figure.high], seeds, strict=True):
            if pd.isna(low):
                low, high = None, None
            estimates.append(MeanInterval(float(mean), low, high, int(n)))
    else:
        values = finite.groupby(keys, sort=False, dropna=False)[figure.value].agg(list)
        estimates = [mean_interval(of_point) for of_point in values]

    points = first[[*figure.extra]].assign(
        panel=first.get(figure.panel, ""), hue=first[figure.hue], row=first["row"], place=first[figure.place],
        is_dense=first.get("is_dense", False), ideal=first.get(figure.ideal, math.nan), estimate=estimates,
    )  # fmt: skip
    points = points.join(pd.DataFrame(estimates, first.index, ["mean", "low", "high", "n"]))
    kinds = {"panel": str, "hue": str, "row": str, "place": float, "is_dense": bool, "ideal": float}
    return points.astype(kinds | {"place": str} if figure.is_forest else kinds)


def _shown(value: object) -> str:
    if isinstance(value, str):
        return value or DASH
    return DASH if pd.isna(value) else f"{value:,.4g}"


def _lines(figure: Figure, points: pd.DataFrame, panels: Sequence[str]) -> Drawing:
    """A panel of lines for each value of `panel`, three side by side, and the names of the lines beside them."""
    is_dense = points.groupby("hue", sort=False).is_dense.all()
    look_of = dict(zip(is_dense.index, looks(is_dense), strict=True))
    rows = -(-len(panels) // _COLUMNS)
    high = max(3.4 if rows == 1 else 2.7, 0.2 * len(look_of) / rows)
    is_large = len(panels) > 2 * _COLUMNS  # where it would take seconds to find a layout
    made = Drawing(figsize=(_WIDTH, high * rows + 0.3), layout=None if is_large else "constrained")
    axes_of = list(made.subplots(rows, min(_COLUMNS, len(panels)), squeeze=False).flat)
    if is_large:
        made.subplots_adjust(0.06, 0.4 / made.get_figheight(), 0.82, 1 - 0.3 / made.get_figheight(), 0.25, 0.45)
    for axes, panel in zip(axes_of, panels, strict=False):
        own = points[points.panel == panel]
        _panel(axes, own, look_of)
        axes.set_title(clean(panel, 44))
        axes.set(xlabel=figure.titles.get(figure.x, figure.x), ylabel=figure.titles.get(figure.y, figure.y))
        if figure.still is not None:
            axes.axhline(figure.still, color=MUTED, linewidth=1, zorder=0.5)
        _scale(axes, figure, own)
    for unused in axes_of[len(panels) :]:
        unused.set_axis_off()

    # Names in the order in which lines end.
    ends = points.sort_values("place", kind="stable").groupby("hue")["mean"].last()
    handles = []
    for hue in sorted(look_of, key=lambda hue: -ends[hue]):
        colour, marker, dashes = look_of[hue]
        name = "\n".join(wrap(clean(hue, 96), 36))
        handles += axes_of[0].plot([], [], color=colour, marker=marker, linestyle=dashes, label=name)
    if len(handles) > 1:
        made.legend(handles=handles, loc="upper right" if is_large else "outside right upper", fontsize=8.5)
    return made


def _panel(axes: Axes, points: pd.DataFrame, look_of: Mapping[str, Look]) -> None:
    """Lines through means, each with its interval and its row's mark; dashed, what was to be expected."""
    sns.lineplot(
        points, x="place", y="mean", hue="hue", style="hue",
        palette={hue: colour for hue, (colour, _, _) in look_of.items()},
        dashes={hue: PATTERNS[dashes] for hue, (_, _, dashes) in look_of.items()},
        estimator=None, linewidth=1.3, legend=False, ax=axes,
    )  # fmt: skip
    for hue, (colour, marker, _) in look_of.items():
        line = points[points.hue == hue].sort_values("place", kind="stable")
        if line.ideal[:1].notna().any():
            axes.plot(line.place, line.ideal, color=colour, linewidth=1, linestyle="--", alpha=0.7)
        for own_colour, own_marker, is_dense in ((colour, marker, False), (INK, "o", True)):
            marked = line[line.is_dense == is_dense]
            bounded = marked[marked.low.notna()]
            axes.vlines(bounded.place, bounded.low, bounded.high, color=own_colour, linewidth=1.4)
            axes.plot(
                marked.place, marked["mean"], color=own_colour, marker=own_marker, markersize=6, linestyle="none",
                zorder=3, markeredgecolor=SURFACE, markeredgewidth=0.8,
            )  # fmt: skip


def _scale(axes: Axes, figure: Figure, points: pd.DataFrame) -> None:
    """After all lines are drawn. Intervals of few seeds may reach far beyond the means, which fill the panel."""
    axes.locator_params(nbins=6)
    axes.locator_params(axis="x", integer=bool((points.place % 1 == 0).all()))
    least, most = points["mean"].min(), points["mean"].max()
    if "y" in figure.logarithmic and least > 0:
        axes.set(yscale="log", ylim=(least / 1.25, most * 1.25))
        low, high = axes.get_ylim()
        equal = MaxNLocator(6, steps=(1, 2, 5, 10))
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=12) if high >= 5 * low else equal)
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_locator(NullLocator())
    if "x" in figure.logarithmic:
        axes.set(xscale="log")
        places = sorted(points.place.unique())
        axes.xaxis.set_major_locator(FixedLocator(places[:: -(-len(places) // 6)]))
        axes.xaxis.set_major_formatter("{x:,.4g}")
        axes.xaxis.set_minor_locator(NullLocator())


def _forest(figure: Figure, points: pd.DataFrame, panels: Sequence[str]) -> Drawing:
    """Names on the left, and for each value of `panel` the estimates on their intervals."""
    names = [*points.place.unique()]
    made = Drawing(figsize=(_WIDTH, 0.9 + _LINE * len(names)), layout="constrained")
    axes_of = made.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, panel in zip(axes_of, panels, strict=True):
        for point in points[points.panel == panel].itertuples():
            y, estimate = names.index(point.place), point.estimate
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


def _described(figure: Figure, points: pd.DataFrame) -> str:
    """What readers hear who cannot see the picture: what is drawn, and where each line ends."""
    value = figure.titles.get(figure.value) or figure.value
    place = "row" if figure.is_forest else figure.titles.get(figure.x) or figure.x
    places = decimals(points["mean"])
    said = []
    for (panel, hue), end in points.groupby(["panel", "hue"], sort=False)["mean"].last()[:24].items():
        said.append(f"{', '.join(filter(None, (panel, hue)))}: {number(end, places)}")
    return f"{value} by {place}. {'; '.join(said)}"


def _numbers(figure: Figure, points: pd.DataFrame) -> list[dict[str, str]]:
    """The lines of the table under the picture."""
    places = decimals(points["mean"])
    signed = figure.still == 0
    shown = {"row": points.row}
    if figure.panel and figure.panel != "row":
        shown[figure.titles.get(figure.panel, figure.panel)] = points.panel.replace("", DASH)
    if figure.hue not in ("row", "name", figure.place):
        shown[figure.titles.get(figure.hue, figure.hue)] = points.hue
    if not figure.is_forest:
        shown[figure.titles.get(figure.x) or figure.x] = points.place.map("{:,.6g}".format)
    shown[figure.titles.get(figure.value) or figure.value] = points["mean"].map(
        lambda mean: number(mean, places, signed)
    )
    shown["95 % interval"] = points.estimate.map(lambda one: interval(one, places, signed, can_be_negative=True))
    if not figure.low or "seeds" in figure.lines:
        shown["seeds"] = points.n.astype(str)
    if figure.ideal:
        shown[figure.titles.get(figure.ideal, figure.ideal)] = points.ideal.map(number)
    for column, header in figure.extra.items():
        shown[header] = points[column].map(_shown)
    return pd.DataFrame(shown).to_dict("records")
