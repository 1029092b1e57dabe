"""One row per configuration, all seeds together, beside its dense reference.

Rows are in groups: same architecture, data, weights to start from, objective, metric protocol and iteration. Only rows
of one group are ranked. A row with a budget is in the group of the row that its budget names, whatever its length and
architecture.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from tread_bench.core.config.choices import PLAINLY_DENSE
from tread_bench.core.stored.records import Evaluation, Record, of_study, paired_seed
from tread_bench.reports.frame import (
    DenseSetting,
    data_of,
    dense_step_ms,
    dense_steps_ms,
    further_figures,
    record_order,
)
from tread_bench.reports.rows import requested
from tread_bench.reports.rows.architectures import with_labels
from tread_bench.reports.rows.row import Group, Row, by_key

METRICS = ("fid", "kid", "validation_loss")


def comparison(records: Iterable[Record], is_smoke: bool = False) -> list[Row]:
    """Return one entry per row and protocol of the study, group by group, dense first, in whatever order `records` are.

    The rows of a smoke run have no lowest FID among them.
    """
    # The seeds of one configuration and protocol make a row, beside their dense references.
    ordered = sorted(map(_without_infinite_fids, of_study(records)), key=record_order)
    cells = _Cells(ordered)
    dense_ms = dense_steps_ms(ordered)
    rows: list[Row] = []
    for _, seeds in groupby(ordered, _row_key):
        rows.extend(_by_protocol(list(seeds), cells, dense_ms))

    # Rows of one group are next to each other.
    rows = [_in_its_group(row, rows) for row in rows]
    rows.sort(key=lambda row: (row.group, row.first.backbone != row.group.backbone, record_order(row.first)))
    if is_smoke:
        return _labelled([replace(row, is_smoke=True) for row in rows], cells)

    # The lowest FID of each group, of rows with as many seeds as any.
    marked = []
    for _, members in groupby(rows, lambda row: row.group):
        of_group = list(members)
        fids = {id(row): row.fid for row in of_group if row.fid and not row.is_evaluated_by_teacher}
        most = max((fid.n for fid in fids.values()), default=0)
        lowest = min((fid.mean for fid in fids.values() if fid.n == most), default=None)
        for row in of_group:
            fid = fids.get(id(row))
            marked.append(replace(row, is_lowest_fid=fid is not None and (fid.n, fid.mean) == (most, lowest)))
    return _labelled(marked, cells)


def _labelled(rows: Sequence[Row], cells: _Cells) -> list[Row]:
    """The rows with what they, and what they are compared with, are called."""
    labelled = with_labels(rows)
    labels = {(row.first.suite, row.name): row.short_label for row in labelled}
    references = {cells.row_of_reference(row.first) for row in labelled}
    found = []
    for row in labelled:
        suite, name = cells.row_of_reference(row.first)
        label = labels.get((suite, name), name or PLAINLY_DENSE.name)
        is_reference = (row.first.suite, row.name) in references
        found.append(replace(row, reference_name=name, reference_label=label, is_reference=is_reference))
    return found


def are_beside_dense(rows: Sequence[Row]) -> bool:
    """Return whether every row that one of their budgets names is plainly dense."""
    named = {(row.first.suite, requested.macs_of(row.first)) for row in rows}
    return all(row.is_dense for row in rows if (row.first.suite, row.name) in named)


def _without_infinite_fids(record: Record) -> Record:
    """The record; an FID that is not finite counts as not measured, and the page says so."""
    if all(e.fid is None or math.isfinite(e.fid) for e in record.evaluations):
        return record
    usable = [e if math.isfinite(e.fid or 0) else e.model_copy(update={"fid": None}) for e in record.evaluations]
    return record.model_copy(update={"evaluations": usable})


def _row_key(record: Record) -> tuple[Any, ...]:
    return record_order(record)[:-2]


def _objective(record: Record) -> str:
    """Such as "flow", or "edm (p_mean -1.2, p_std 1.2, sigma_data 0.5)"."""
    config = record.config.get("objective", {})
    name = str(config.get("name", ""))
    settings = ", ".join(f"{key} {config[key]}" for key in ("p_mean", "p_std", "sigma_data") if key in config)
    return f"{name} ({settings})" if settings else name


class _Cells:
    """The records of a run, by cell and by row."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.by_id = {record.cell: record for record in records}
        self.by_row = by_key(records, lambda record: (record.suite, record.row))

    def of_budget(self, record: Record) -> list[Record]:
        """Return the cells of the row that the record's budget names; without a budget none."""
        return self.by_row.get((record.suite, requested.macs_of(record)), [])

    def row_of_reference(self, record: Record) -> tuple[str, str]:
        """Suite and name of the row that a record's row is compared with, finished or not; "" where there is none."""
        reference = self.by_id.get(record.reference)
        return record.suite, requested.macs_of(record) or (reference.row if reference else "")

    def group(self, record: Record) -> Group:
        """Return the group of a record; with a budget, architecture and iteration are those of the row that it names.

        Where no cell of that row has finished, its iteration is the last that was requested.
        """
        of_budget = self.of_budget(record)
        ends = [one.last.iteration for one in of_budget if one.status == "done" and one.last]
        end = max(ends or map(requested.iterations, of_budget), default=0)
        last = record.last
        return Group(
            backbone=of_budget[0].backbone if of_budget else record.backbone,
            data=data_of(record),
            objective=_objective(record),
            start=requested.start(record),
            protocol=last.protocol or "" if last else "",
            iteration=end or last.iteration if last else 0,
        )


def _by_protocol(records: list[Record], cells: _Cells, dense_ms: Mapping[DenseSetting, float]) -> list[Row]:
    """One row per protocol that its finished cells were measured under; unfinished cells stay with the first."""
    done = [record for record in records if record.status == "done"]
    not_done = [record for record in records if record.status != "done"]
    groups = by_key(done, cells.group)
    nothing = cells.group(records[0].model_copy(update={"evaluations": []}))
    first = next(iter(groups), nothing)
    groups.setdefault(first, []).extend(not_done)
    return [_row(group, members, dense_ms) for group, members in groups.items()]


def _row(group: Group, records: Sequence[Record], dense_ms: Mapping[DenseSetting, float]) -> Row:
    step_ms = next((dense_step_ms(record, dense_ms) for record in records if record.timing), None)
    members = tuple(sorted(records, key=record_order))
    row = Row(group=group, name=records[0].row, records=members, dense_step_ms=step_ms)

    # Scores of each seed, as far as they are finite.
    further = [figure.name for figure in further_figures(row.done)]
    for record in row.done:
        own = _evaluation(record, group)
        for metric in (*METRICS, *further):
            value = own.figure(metric) if own else None
            if value is not None and math.isfinite(value):
                row.scores.setdefault(metric, {})[paired_seed(record)] = value
    return row


def _evaluation(record: Record, group: Group) -> Evaluation | None:
    """At the group's iteration, under its protocol; None where it cannot enter a decision."""
    same = (group.iteration, group.protocol)
    found = next((e for e in record.evaluations if (e.iteration, e.protocol or "") == same), None)
    return found if found and requested.is_settled(record, found) else None


def _in_its_group(row: Row, rows: Sequence[Row]) -> Row:
    """A row without a finished cell is placed with the rows of its architecture, data, objective and start."""
    if row.done:
        return row
    alike = [other.group for other in rows if other.done and other.group[:4] == row.group[:4]]
    return replace(row, group=min(alike)) if alike else row
