"""Rows that differ in one thing: a schedule, an added loss, or several routes in place of one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from tread_bench.core.numbers.statistics import LEVEL, MeanInterval, paired_difference, paired_p_values
from tread_bench.reports.claims.verdict import kind
from tread_bench.reports.rows import requested
from tread_bench.reports.rows.row import Row
from tread_bench.reports.text.numbers import decimals
from tread_bench.reports.text.sentences import say


class Contrast(NamedTuple):
    """A row compared with the one without `change`, on the same seeds."""

    base: Row
    row: Row
    change: str
    difference: MeanInterval  # of FID


class _Settings(NamedTuple):
    method: str
    routes: tuple[tuple[int, int], ...]
    rates: frozenset[str]
    selector: str
    auxiliary: str
    schedule: str


def contrasts(rows: Sequence[Row]) -> list[Contrast]:
    """By base, the simplest first; none where the rows are a comparison of methods, routes or rates."""
    # Rows that were trained, and may be ranked.
    ranked = [row for row in rows if row.fid and not row.is_evaluated_by_teacher]
    trained = [row for row in ranked if not requested.is_evaluated_only(row.first)]
    if kind([row for row in trained if not row.is_dense and not requested.is_control(row.first)]) != "row":
        return []

    # Pairs of rows of one group that differ in one thing.
    found = []
    simplest = sorted(trained, key=lambda row: (len(row.spans), bool(requested.auxiliary(row.first))))
    for base in simplest:
        for row in trained:
            change = _change(base, row) if row.group == base.group else ""
            difference = paired_difference(row.scores["fid"], base.scores["fid"]) if change else None
            if difference:
                found.append(Contrast(base, row, change, difference))
    return found


def _settings(row: Row) -> _Settings:
    first = row.first
    return _Settings(
        method=first.method,
        routes=tuple(row.spans),
        rates=frozenset(first.rate.split(",")),
        selector=first.selector if row.spans else "",
        auxiliary=requested.auxiliary(first),
        schedule=requested.scheduled(first),
    )


def _change(base_row: Row, row: Row) -> str:
    """What the row has and the base does not, where they differ in nothing else."""
    base = _settings(base_row)
    this = _settings(row)
    if this.schedule and this._replace(schedule="") == base:
        return this.schedule
    if this.auxiliary and this._replace(auxiliary="") == base:
        return this.auxiliary
    is_split = len(this.routes) > 1 == len(base.routes)
    if is_split and this._replace(routes=base.routes) == base:
        return f"routes {row.first.routes}"
    return ""


def summary(rows: Sequence[Row]) -> str:
    """Return the effect of each change on FID, base by base; "" without any."""
    found = contrasts(rows)
    if not found:
        return ""

    # Test each change.
    adjusted = paired_p_values((one.row.scores["fid"], one.base.scores["fid"]) for one in found)

    # What each base was changed by.
    places = decimals(row.fid.mean for row in rows if row.fid)
    bases = []
    for base, pairs in groupby(zip(found, adjusted, strict=True), lambda pair: pair[0].base.short_label):
        bases.append((base, [(one.change, one.difference, p_value <= LEVEL) for one, p_value in pairs]))
    return say("contrasts", "summary", bases=bases, places=places)
