"""Series of one figure over the runs, and where it changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from typing import Literal, NamedTuple

import numpy as np
from pydantic import JsonValue

from tread_bench.core.stored.records import Record
from tread_bench.regression.history.change_points import MIN_RUNS, Segment, exact_segments, segments
from tread_bench.regression.history.metrics import Figure, Metric, figures, followed
from tread_bench.regression.history.runs import Run

Effect = Literal["worse", "better", "changed"]


class Change(NamedTuple):
    """From the level `before` to `after`, between the run `last` and the run `first` of a history."""

    before: float
    after: float
    last: int
    first: int
    effect: Effect

    @property
    def share(self) -> float | None:
        """Relative change; None from 0."""
        return (self.after - self.before) / abs(self.before) if self.before else None


@dataclass(frozen=True)
class Series:
    """A metric of a row, in comparable runs: `runs` are places in the history, ascending.

    `apart` is what distinguishes it from other series of the same metric and row, such as the device.
    """

    suite: str
    row: str
    metric: Metric
    apart: dict[str, JsonValue]
    runs: tuple[int, ...]
    values: tuple[float, ...]

    @property
    def is_enough(self) -> bool:
        """Whether there are enough runs to detect a change."""
        return len(self.runs) >= (2 if self.metric.is_exact else MIN_RUNS)

    @cached_property
    def segments(self) -> list[Segment]:
        """Its levels, in order; none where it is too short to detect a change."""
        if not self.is_enough:
            return []
        if self.metric.is_exact:
            return exact_segments(self.values)
        return segments(self.values, self.metric.relevant(float(np.median(self.values))))

    @property
    def changes(self) -> list[Change]:
        return [self._change(before, after) for before, after in pairwise(self.segments)]

    def _change(self, before: Segment, after: Segment) -> Change:
        direction = self.metric.worse * (after.level - before.level)
        effect: Effect = "changed"
        if direction:
            effect = "worse" if direction > 0 else "better"
        return Change(before.level, after.level, self.runs[after.start - 1], self.runs[after.start], effect)


def series_of(runs: Sequence[Run]) -> list[Series]:
    """Return every series of a history, by suite, row (as the first run has them) and metric."""
    found: dict[tuple[str, str], dict[tuple[str, str], list[tuple[int, Figure]]]] = {}
    for place, run in enumerate(runs):
        for row, seeds in _rows(run).items():
            of_row = found.setdefault((run.suite, row), {})
            for figure in figures(seeds):
                of_row.setdefault(figure.key, []).append((place, figure))
    return [one for (suite, row), of_row in found.items() for one in _of_row(suite, row, list(of_row.values()))]


def _rows(run: Run) -> dict[str, list[Record]]:
    rows: dict[str, list[Record]] = {}
    for record in run.records:
        rows.setdefault(record.row, []).append(record)
    return rows


def _of_row(suite: str, row: str, found: Sequence[list[tuple[int, Figure]]]) -> list[Series]:
    series = []
    for name, metric in followed(points[0][1].metric for points in found).items():
        of_metric = [points for points in found if points[0][1].metric == name]
        differences = _apart([points[0][1].context for points in of_metric])
        for points, apart in zip(of_metric, differences, strict=True):
            places = tuple(place for place, _ in points)
            values = tuple(figure.value for _, figure in points)
            series.append(Series(suite, row, metric, apart, places, values))
    return series


def _apart(contexts: Sequence[dict[str, JsonValue]]) -> list[dict[str, JsonValue]]:
    """The part of each context that is not the same in all."""
    differing = []
    for key in sorted(set(chain.from_iterable(contexts))):
        if any(context.get(key) != contexts[0].get(key) for context in contexts):
            differing.append(key)
    return [{key: context.get(key) for key in differing} for context in contexts]
