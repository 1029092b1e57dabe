"""The page of a history: which figures changed, at which commits, and the runs it was read from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tread_bench.regression.history.change_points import MIN_RUNS, MIN_SEGMENT, PENALTY
from tread_bench.regression.history.metrics import Metric
from tread_bench.regression.history.runs import LeftOut, Run
from tread_bench.regression.history.series import Change, Series
from tread_bench.reports.figures.history import metrics_of, pictures, series_name, size
from tread_bench.reports.page.document import write_export, write_page
from tread_bench.reports.text.numbers import decimals, names, number, plural
from tread_bench.reports.text.sentences import say


@dataclass(frozen=True, slots=True)
class ChangeLine:
    """A change as people read it, between the run `last` and the run `first`."""

    series: Series
    change: Change
    last: Run
    first: Run

    @property
    def row(self) -> str:
        return series_name(self.series)

    @property
    def before(self) -> str:
        return self._value(self.change.before)

    @property
    def after(self) -> str:
        return self._value(self.change.after)

    @property
    def size(self) -> str:
        return size(self.change, self.series.metric)

    def _value(self, level: float) -> str:
        metric = self.series.metric
        places = 0 if metric.is_exact else decimals((self.change.before, self.change.after))
        return f"{number(level, places)} {metric.unit}".rstrip()


def render(
    runs: Sequence[Run], series: Sequence[Series], left_out: Sequence[LeftOut], out: Path, export: Path | None = None
) -> None:
    """Write figures/*.svg and index.html into `out`, each atomically; and, where requested, an export of the pictures.

    Raises:
        OutputError: what would be replaced is a link.
    """
    # The pictures.
    drawn = pictures(series, runs, export is not None)
    followed = metrics_of(series)

    # What the page says.
    suites = list(dict.fromkeys(run.suite for run in runs))
    context: dict[str, Any] = {
        "name": f"History of {names(suites)}",
        "is_one_suite": len(suites) == 1,
        "decision": decision(series, runs),
        "headline": headline(series, runs),
        "notes": notes(series),
        "changes": change_lines(series, runs)[::-1],
        "changed": [picture for picture in drawn if not picture.is_folded],
        "steady": [picture for picture in drawn if picture.is_folded],
        "runs": runs,
        "has_stars": any(run.is_changed for run in runs),
        "left_out": left_out,
        "devices": sorted({_device(run) for run in runs} - {""}),
        "series": [_series_line(one) for one in series],
        "metrics": [(metric.label, metric.about, _what_matters(metric)) for metric in followed],
        "rule": {"runs": MIN_RUNS, "following": MIN_SEGMENT, "penalty": PENALTY},
    }
    write_page(out, "history.html.j2", drawn, **context)
    if export:
        write_export(export, [], drawn)


def decision(series: Sequence[Series], runs: Sequence[Run]) -> str:
    """Return whether anything got worse since the first run, and what did so last, in a sentence."""
    worse = [line for line in change_lines(series, runs) if line.change.effect == "worse"]
    return say(
        "history",
        "decision",
        worse=len(worse),
        last=worse[-1] if worse else None,
        since=runs[0].label,
        is_known=_has_noisy(series),
        tested=sum(one.is_enough for one in series),
    )


def headline(series: Sequence[Series], runs: Sequence[Run]) -> str:
    """Return what was found, over how much."""
    return say(
        "history",
        "headline",
        effects=Counter(change.effect for one in series for change in one.changes),
        is_known=_has_noisy(series),
        tested=sum(one.is_enough for one in series),
        runs=len(runs),
        needed=MIN_RUNS,
    )


def _has_noisy(series: Sequence[Series]) -> bool:
    """Whether some figure with noise has enough runs."""
    return any(one.is_enough and not one.metric.is_exact for one in series)


def notes(series: Sequence[Series]) -> list[str]:
    """Notes on the headline: series that are too short, and rows that are split into several series."""
    found = []
    short = sum(not one.is_enough for one in series)
    if short and _has_noisy(series):
        found.append(f"{short:,} series have too few runs to detect a change: {MIN_RUNS} are needed")
    cut = len({(one.suite, one.row) for one in series if one.apart})
    if cut:
        rows = plural(cut, "row")
        found.append(f"runs of {rows} with another configuration, conditions or seeds are separate series")
    return found


def change_lines(series: Sequence[Series], runs: Sequence[Run]) -> list[ChangeLine]:
    """Return all changes, in the order of their commits."""
    found = [(one, change) for one in series for change in one.changes]
    found.sort(key=lambda pair: pair[1].first)
    return [ChangeLine(one, change, runs[change.last], runs[change.first]) for one, change in found]


def _series_line(series: Series) -> tuple[str, str, str, int, str]:
    """Suite, row, metric, runs, verdict."""
    verdict = "no change" if series.is_enough else "too few runs to decide"
    if series.changes:
        verdict = plural(len(series.changes), "change")
    return series.suite, series_name(series), series.metric.label, len(series.runs), verdict


def _what_matters(metric: Metric) -> str:
    """The smallest step that is reported."""
    if metric.is_exact:
        return "any"
    absolute = f" + {metric.absolute:g} {metric.unit}" if metric.absolute else ""
    return f"{100 * metric.share:.3g} %{absolute}"


def _device(run: Run) -> str:
    conditions = run.records[0].conditions
    return conditions.device_name or conditions.device or ""
