"""What rows are compared at: equal training cost, or equal iterations. Pictures that can show both have a switch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from matplotlib.colors import Normalize

from tread_bench.core.numbers.statistics import LEVEL, MeanInterval, against_best, mean_interval
from tread_bench.reports.claims.equal_cost import AtEqualCost
from tread_bench.reports.claims.verdict import outcome
from tread_bench.reports.figures.drawing import tones
from tread_bench.reports.figures.style import BETTER, DIVERGING, MUTED, WORSE
from tread_bench.reports.rows.row import Row
from tread_bench.reports.text.sentences import say


@dataclass(frozen=True)
class Difference:
    """The FID of a row minus that of its reference."""

    estimate: MeanInterval
    is_significant: bool  # by the test of the verdict


@dataclass(frozen=True)
class Basis:
    """FIDs and their differences to the reference at one kind of equality, by id of the row."""

    words: str
    fids: dict[int, MeanInterval]
    differences: dict[int, Difference]
    best: frozenset[int]  # ids of rows that are not distinguishable from the one of lowest FID
    caption: str
    suffix: str = ""  # of the name of its picture; "" for the first

    def difference(self, row: Row) -> Difference | None:
        return self.differences.get(id(row))

    def shown(self, row: Row) -> MeanInterval | None:
        found = self.difference(row)
        return found.estimate if found else None

    def is_best(self, row: Row) -> bool:
        return id(row) in self.best

    def scale(self, rows: Sequence[Row]) -> Normalize:
        """Of the colours of these rows, symmetric about 0."""
        estimates = [self.shown(row) for row in rows]
        largest = max((abs(estimate.mean) for estimate in estimates if estimate), default=1.0) or 1.0
        return Normalize(-largest, largest)

    def tone(self, row: Row, scale: Normalize) -> Any:
        """Return a colour, the stronger the larger the difference; grey where the verdict finds none, or has none."""
        found = self.difference(row)
        return DIVERGING(scale(found.estimate.mean if found and found.is_significant else 0.0))

    def way(self, row: Row) -> str:
        """Blue, orange or grey, whatever the size of the difference."""
        found = self.difference(row)
        if found is None or not found.is_significant:
            return MUTED
        return BETTER if found.estimate.mean < 0 else WORSE


def bases(rows: Sequence[Row], costs: Sequence[AtEqualCost]) -> list[Basis]:
    """Equal training cost first, and equal iterations; none where no row has a reference.

    Where only few of the rows could be compared at equal cost, equal iterations alone.
    """
    at_cost, at_iterations = _at_cost(costs, rows), _at_iterations(rows)
    if 2 * len(at_cost.differences) < max(1, len(at_iterations.differences)):
        return [at_iterations] if at_iterations.differences else []
    return [at_cost, *([replace(at_iterations, suffix="_iterations")] if at_iterations.differences else [])]


def _at_cost(costs: Sequence[AtEqualCost], rows: Sequence[Row]) -> Basis:
    compared = [one for one in costs if one.at_macs is not None]
    differences = {
        id(one.row): Difference(one.at_macs, one.at_macs_p is not None and one.at_macs_p <= LEVEL)
        for one in compared
        if one.at_macs
    }
    fids = {id(one.reference): one.reference.fid for one in compared}
    fids |= {id(one.row): mean_interval(list(one.fids_at_macs.values())) for one in compared}
    how = say("figures/shared", "at_cost", are_trained=all(one.is_trained for one in compared))
    return Basis(
        "equal training cost", {row: fid for row, fid in fids.items() if fid}, differences, _best_at_cost(compared),
        f"{how} {tones(rows)}".strip(),
    )  # fmt: skip


def _best_at_cost(costs: Sequence[AtEqualCost]) -> frozenset[int]:
    """Rows that were trained to one reference's cost, with it; rows whose curves were read end at different costs."""
    best: set[int] = set()
    fids = {id(one.row): one.fids_at_macs for one in costs}
    fids |= {id(one.reference): one.reference.scores.get("fid", {}) for one in costs}
    for reference in {id(one.reference): one.reference for one in costs}.values():
        members = [one.row for one in costs if one.reference is reference and one.is_trained]
        ranked = [row for row in (reference, *members) if not row.is_evaluated_by_teacher]
        ends = {str(place): fids[id(row)] for place, row in enumerate(ranked)}
        if len(ranked) > 1 and all(ends.values()) and not reference.is_smoke:
            best |= {id(ranked[int(place)]) for place in against_best(ends).best()}
    return frozenset(best)


def _at_iterations(rows: Sequence[Row]) -> Basis:
    differences = {}
    best = set()
    for row in rows:
        estimate = row.difference("fid")
        if estimate:
            differences[id(row)] = Difference(estimate, outcome(row) in ("better", "worse"))
        if row.is_among_lowest_fid:
            best.add(id(row))
    caption = f"{say('figures/shared', 'at_iterations')} {tones(rows)}".strip()
    fids = {id(row): row.fid for row in rows if row.fid}
    return Basis("equal iterations", fids, differences, frozenset(best), caption)
