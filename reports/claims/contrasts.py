"""Rows that differ in one thing: a schedule, an added loss, or several routes in place of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tread_bench.core.numbers.statistics import MeanInterval, paired_difference
from tread_bench.reports.claims.verdict import kind
from tread_bench.reports.rows import requested
from tread_bench.reports.rows.comparison import tested
from tread_bench.reports.rows.row import Row, by_key
from tread_bench.reports.text.numbers import decimals
from tread_bench.reports.text.sentences import say


class Contrast(NamedTuple):
    """A row compared with the one without `change`, on the same seeds."""

    base: Row
    row: Row
    change: str
    difference: MeanInterval  # of FID


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


def _settings(row: Row) -> dict[str, Any]:
    """In which rows may differ."""
    first = row.first
    return {
        "method": first.method,
        "routes": row.spans,
        "rates": set(first.rate.split(",")),
        "selector": first.selector if row.spans else "",
        "auxiliary": requested.auxiliary(first),
        "schedule": requested.scheduled(first),
        "decay": requested.decay(first),
        "optimizer": requested.optimizer(first),
        "lora": requested.lora_rank(first),
        "start": requested.start(first),
    }


def _change(base_row: Row, row: Row) -> str:
    """What the row has and the base does not, where they differ in nothing else."""
    base, this = _settings(base_row), _settings(row)
    for added in ("schedule", "auxiliary"):
        if this[added] and {**this, added: ""} == base:
            return str(this[added])
    is_split = len(row.spans) > 1 == len(base_row.spans)
    if is_split and {**this, "routes": base_row.spans} == base:
        return f"routes {row.first.routes}"
    return ""


def summary(rows: Sequence[Row]) -> str:
    """Return the effect of each change on FID, base by base; "" without any."""
    found = contrasts(rows)
    if not found:
        return ""

    tests = tested((one.row.scores["fid"], one.base.scores["fid"]) for one in found)
    bases = by_key(zip(found, tests, strict=True), lambda pair: pair[0].base.short_label)
    return say("contrasts", "summary", bases=bases, places=decimals(row.fid.mean for row in rows if row.fid))
