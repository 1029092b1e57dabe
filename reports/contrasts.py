"""Rows that differ in one thing: a schedule, an added loss, or several routes in place of one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from tread_bench.core.statistics import LEVEL, Estimate, holm, paired_difference, paired_p_value
from tread_bench.reports import asked
from tread_bench.reports.comparison import Row
from tread_bench.reports.numbers import decimals, interval, number
from tread_bench.reports.verdict import kind


class Contrast(NamedTuple):
    """A row beside the one without `change`, by the same seeds."""

    base: Row
    row: Row
    change: str
    difference: Estimate  # of FID


class _Asked(NamedTuple):
    method: str
    routes: tuple[tuple[int, int], ...]
    rates: frozenset[str]
    selector: str
    auxiliary: str
    schedule: str


def contrasts(rows: Sequence[Row]) -> list[Contrast]:
    """By base, the simplest first; none among rows that are methods, routes or rates to each other."""
    ranked = [row for row in rows if row.fid and not row.is_judged_by_teacher]
    trained = [row for row in ranked if not asked.is_evaluated_only(row.first)]
    if kind([row for row in trained if not row.is_dense]) != "row":
        return []
    simplest = sorted(trained, key=lambda row: (len(row.spans), bool(asked.auxiliary(row.first))))
    return [
        Contrast(base, row, change, difference)
        for base in simplest
        for row in trained
        if row.group == base.group
        and (change := _change(_asked(base), row))
        and (difference := paired_difference(row.scores["fid"], base.scores["fid"]))
    ]


def _asked(row: Row) -> _Asked:
    first = row.first
    rates, selector = frozenset(first.rate.split(",")), first.selector if row.spans else ""
    return _Asked(first.method, tuple(row.spans), rates, selector, asked.auxiliary(first), asked.scheduled(first))


def _change(base: _Asked, row: Row) -> str:
    """What the row has and the base has not, where that is all that they differ in."""
    this = _asked(row)
    if this.schedule and this._replace(schedule="") == base:
        return this.schedule
    if this.auxiliary and this._replace(auxiliary="") == base:
        return this.auxiliary
    is_split = len(this.routes) > 1 == len(base.routes)
    if is_split and this._replace(routes=base.routes) == base:
        return f"routes {row.first.routes}"
    return ""


def lead(rows: Sequence[Row]) -> str:
    """What each change does to FID, base by base; "" without any."""
    found = contrasts(rows)
    p_values = [paired_p_value(one.row.scores["fid"], one.base.scores["fid"]) for one in found]
    told = zip(found, holm([1.0 if p is None else p for p in p_values]), strict=True)
    places = decimals(row.fid.mean for row in rows if row.fid)
    said = [
        f"Beside {base}, FID changes {', and '.join(_said(one, p, places) for one, p in members)}."
        for base, members in groupby(told, lambda pair: pair[0].base.short_label)
    ]
    return " ".join([*said, "Paired over seeds; tests are Holm-adjusted."]) if said else ""


def _said(one: Contrast, p_value: float, places: int) -> str:
    mean = f"by {number(one.difference.mean, places, signed=True)} with {one.change}"
    if one.difference.bounds is None:
        return f"{mean} (one seed, which settles nothing)"
    evidence = interval(one.difference, places, signed=True)
    return f"{mean} ({evidence}{', not significant' if p_value > LEVEL else ''})"
