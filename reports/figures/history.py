"""Series over runs, commits on the axis: a panel per series, its levels, and where it changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

from tread_bench.regression.history.metrics import Metric, followed
from tread_bench.regression.history.runs import Run
from tread_bench.regression.history.series import Change, Series
from tread_bench.reports.figures import style
from tread_bench.reports.figures.picture import Picture, picture_of
from tread_bench.reports.figures.style import BETTER, INK, MUTED, WORSE, clean
from tread_bench.reports.tables.tables import flat
from tread_bench.reports.text.numbers import DASH, decimals, number

_WIDTH = 9.6  # inches
_LEFT = 0.75
_RIGHT = 0.2
_PANEL = 0.85
_TITLE = 0.32
_WORDS = 0.18
_PANELS = 12  # in a picture
_LABELS = 44  # that fit beside each other
_APART = 0.75  # inches between the words on two changes of a panel
_COLOURS = {"worse": WORSE, "better": BETTER, "changed": INK}


class _Axis(NamedTuple):
    """The runs that a picture shows, by their place in the history, each with its label and its day."""

    places: list[int]
    labels: list[str]
    days: list[str]

    def x(self, place: int) -> int:
        return self.places.index(place)


def metrics_of(series: Sequence[Series]) -> Sequence[Metric]:
    """Return every metric that a history follows, with those that suites added to these runs."""
    return [*followed(one.metric.name for one in series).values()]


def pictures(series: Sequence[Series], runs: Sequence[Run], exports: bool = False) -> list[Picture]:
    """For each suite and metric, the series that changed and, folded, those that did not.

    Args:
        exports: whether each picture holds a PNG and a PDF beside the SVG.
    """
    with style.theme(exports):
        return sorted(_pictures(series, runs), key=lambda picture: picture.is_folded)


def series_name(series: Series) -> str:
    """Return its row, and what distinguishes it from other series of that row."""
    return f"{series.row} ({flat(series.apart)})" if series.apart else series.row


def size(change: Change, metric: Metric) -> str:
    """Return how large a change is: +8.0 %, or of a count +64."""
    if metric.is_exact:
        return number(change.after - change.before, 0, signed=True)
    return f"{number(100 * change.share, 1, signed=True)} %" if change.share is not None else DASH


def _pictures(series: Sequence[Series], runs: Sequence[Run]) -> Iterator[Picture]:
    suites = list(dict.fromkeys(one.suite for one in series))
    for metric in metrics_of(series):
        of_metric = [one for one in series if one.metric == metric and len(one.runs) > 1]
        drawn = 0
        for suite in suites:
            title = metric.label + (f", {suite}" if len(suites) > 1 else "")
            own = [one for one in of_metric if one.suite == suite]
            for is_folded, members in _parts(own):
                suffix = f"-{drawn}" if drawn else ""
                yield _picture(f"{metric.name}{suffix}", title, members, _axis(members, runs), is_folded)
                drawn += 1


def _parts(series: Sequence[Series]) -> Iterator[tuple[bool, list[Series]]]:
    """(is folded, series), at most `_PANELS` at a time; what never changes and has no noise needs no picture."""
    changed = [one for one in series if one.changes]
    steady = [one for one in series if not one.changes and not one.metric.is_exact]
    for is_folded, members in ((False, changed), (True, steady)):
        for first in range(0, len(members), _PANELS):
            yield is_folded, members[first : first + _PANELS]


def _axis(series: Sequence[Series], runs: Sequence[Run]) -> _Axis:
    places = sorted({place for one in series for place in one.runs})
    shown = [runs[place] for place in places]
    return _Axis(places, [run.label for run in shown], [f"{run.time:%Y-%m-%d}" for run in shown])


def _picture(name: str, title: str, series: Sequence[Series], axis: _Axis, is_folded: bool) -> Picture:
    each = [(series_name(one), one, _changes(one, axis)) for one in series]
    picture = picture_of(
        "history", _figure(series, axis), _numbers(series, axis), what=title, is_folded=is_folded, each=each,
        runs=len(axis.places), about=series[0].metric.about,
    )  # fmt: skip
    return replace(picture, name=name, is_folded=is_folded)


def _changes(series: Series, axis: _Axis) -> list[tuple[str, str, str]]:
    """(size, commit, effect) of each."""
    return [(size(c, series.metric), axis.labels[axis.x(c.first)], c.effect) for c in series.changes]


def _numbers(series: Sequence[Series], axis: _Axis) -> list[dict[str, str]]:
    lines = [{"commit": label, "day": day} for label, day in zip(axis.labels, axis.days, strict=True)]
    for one in series:
        values = dict(zip(one.runs, one.values, strict=True))
        digits = 0 if one.metric.is_exact else decimals(one.values)
        for place, line in zip(axis.places, lines, strict=True):
            line[series_name(one)] = number(values.get(place), digits)
    return lines


def _figure(series: Sequence[Series], axis: _Axis) -> Figure:
    changed = {axis.x(change.first) for one in series for change in one.changes}
    above = _TITLE + (_WORDS if changed else 0)
    height = len(series) * (above + _PANEL) + 0.2 + 0.07 * max(map(len, axis.labels))
    figure = Figure(figsize=(_WIDTH, height))
    for k, one in enumerate(series):
        bottom = height - (k + 1) * (above + _PANEL)
        place = (_LEFT / _WIDTH, bottom / height, 1 - (_LEFT + _RIGHT) / _WIDTH, _PANEL / height)
        axes = figure.add_axes(place)
        _title(axes, one, 72 * (above - _TITLE) + 6)
        _panel(axes, one, axis)
    _name_runs(axes, axis, changed)
    return figure


def _title(axes: Axes, series: Series, points: float) -> None:
    """Points above the panel, so many that the labels of changes fit between."""
    words = clean(series_name(series), 90) + ("" if series.is_enough else ": too few runs to decide")
    axes.annotate(words, (0, 1), (0, points), xycoords="axes fraction", textcoords="offset points", size=9.5)


def _panel(axes: Axes, series: Series, axis: _Axis) -> None:
    x = [axis.x(place) for place in series.runs]
    axes.plot(x, series.values, linestyle="none", marker="o", markersize=3.4, color=MUTED)
    _levels(axes, series, x)
    last = -_APART
    for change in series.changes:
        inches = axis.x(change.first) / max(1, len(axis.places)) * (_WIDTH - _LEFT - _RIGHT)
        _step(axes, change, axis, size(change, series.metric) if inches - last >= _APART else "")
        last = inches if inches - last >= _APART else last
    _style_values(axes, series.metric, series.values)
    axes.set(xlim=(-0.7, len(axis.places) - 0.3), xticks=())


def _levels(axes: Axes, series: Series, x: Sequence[int]) -> None:
    colours = [INK, *(_COLOURS[change.effect] for change in series.changes)]
    for segment, colour in zip(series.segments, colours, strict=False):
        ends = (x[segment.start] - 0.4, x[segment.stop - 1] + 0.4)
        axes.plot(ends, [segment.level] * 2, color=colour, linewidth=2.4, solid_capstyle="butt")


def _step(axes: Axes, change: Change, axis: _Axis, words: str) -> None:
    """A line between the two runs with a triangle at its head, and how large the change is."""
    between = (axis.x(change.last) + axis.x(change.first)) / 2
    axes.axvline(between, color=MUTED, linewidth=1, linestyle=(0, (2, 2)))
    marker = "^" if change.after > change.before else "v"
    axes.plot([between], [1], transform=axes.get_xaxis_transform(), marker=marker, markersize=6.5, clip_on=False,
              color=_COLOURS[change.effect])  # fmt: skip
    if words:
        axes.annotate(words, (between, 1), (6, 3), xycoords=axes.get_xaxis_transform(),
                      textcoords="offset points", size=8.5)  # fmt: skip


def _style_values(axes: Axes, metric: Metric, values: Sequence[float]) -> None:
    """An axis that does not magnify noise: it shows at least twice what matters to either side."""
    low, high = min(values), max(values)
    middle = (low + high) / 2
    half = max((high - low) * 0.62, 2 * metric.relevant(middle)) or 1.0
    axes.set_ylim(middle - half, middle + half)
    if metric.is_exact:
        axes.set_yticks(sorted(set(values))[:: max(1, len(set(values)) // 3)])
        axes.yaxis.set_major_formatter("{x:,.0f}" if high < 1e7 else EngFormatter(places=3, sep=""))
    else:
        axes.yaxis.set_major_locator(MaxNLocator(3))
        axes.yaxis.set_major_formatter("{x:,.6g}")


def _name_runs(axes: Axes, axis: _Axis, changed: set[int]) -> None:
    """Commits below the last panel: all, or as many as fit, those of changes in bold and with room around them."""
    every = -(-len(axis.places) // _LABELS)
    near = {x + d for x in changed for d in range(1 - every, every)}
    shown = sorted(changed | (set(range(0, len(axis.places), every)) - near))
    axes.grid(axis="x", visible=False)
    axes.set_xticks(shown, [clean(axis.labels[x], 24) for x in shown], rotation=90, size=7.5)
    for x, label in zip(shown, axes.get_xticklabels(), strict=True):
        label.set(color=INK if x in changed else MUTED, fontweight="bold" if x in changed else "normal")
