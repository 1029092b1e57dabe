"""The page of a history: which figures changed, at which commits, and the runs it was read from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tread_bench.regression.history.change_points import MIN_RUNS, MIN_SEGMENT, PENALTY
from tread_bench.regression.history.runs import LeftOut, Run
from tread_bench.regression.history.series import Change, Series
from tread_bench.reports.figures.history import metrics_of, pictures, series_name, size
from tread_bench.reports.page.document import write_export, write_page
from tread_bench.reports.text.numbers import decimals, names, number
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
    drawn = pictures(series, runs, export is not None)
    suites = list(dict.fromkeys(run.suite for run in runs))
    conditions = [run.records[0].conditions for run in runs]
    context: dict[str, Any] = {
        # What was found.
        "name": f"History of {names(suites)}",
        "decision": decision(series, runs),
        "headline": headline(series, runs),
        "notes": notes(series),
        "changes": change_lines(series, runs)[::-1],
        "pictures": drawn,
        # The runs and the series that it was found in.
        "runs": runs,
        "left_out": left_out,
        "devices": sorted({one.device_name or one.device or "" for one in conditions} - {""}),
        "is_one_suite": len(suites) == 1,
        "series": series,
        "series_name": series_name,
        "metrics": metrics_of(series),
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
    short = sum(not one.is_enough for one in series)
    cut = len({(one.suite, one.row) for one in series if one.apart})
    found = []
    if short and _has_noisy(series):
        found.append(say("history", "short", short=short, needed=MIN_RUNS))
    if cut:
        found.append(say("history", "cut", rows=cut))
    return found


def change_lines(series: Sequence[Series], runs: Sequence[Run]) -> list[ChangeLine]:
    """Return all changes, in the order of their commits."""
    found = [(one, change) for one in series for change in one.changes]
    found.sort(key=lambda pair: pair[1].first)
    return [ChangeLine(one, change, runs[change.last], runs[change.first]) for one, change in found]
