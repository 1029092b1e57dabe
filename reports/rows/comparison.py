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
from typing import Any, Literal, NamedTuple

from tread_bench.core.config.choices import PLAINLY_DENSE
from tread_bench.core.numbers.statistics import (
    LEVEL,
    AgainstBest,
    MeanInterval,
    Seeds,
    against_best,
    holm,
    paired_difference,
    paired_p_value,
    paired_p_values,
)
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
from tread_bench.reports.rows.architectures import side_by_side, with_labels
from tread_bench.reports.rows.row import Group, Row, by_key

METRICS = ("fid", "kid", "validation_loss")
Standing = Literal["better", "not beyond chance", "open", "worse", "unknown"]


def comparison(records: Iterable[Record], is_smoke: bool = False) -> list[Row]:
    """Return one entry per row and protocol of the study, group by group, dense first, in whatever order `records` are.

    The rows of a smoke run have no tests and no lowest FID among them.
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

    # Tests against dense, and the lowest FIDs of each group.
    ranked: list[Row] = []
    for _, members in groupby(_test(rows), lambda row: row.group):
        ranked.extend(_rank(list(members)))
    return _labelled(ranked, cells)


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
        found.append(replace(row, reference_label=label, is_reference=is_reference))
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

    def reference(self, record: Record) -> Record | None:
        """Return the finished cell that a record is compared with: the paired one of its budget's row, else its
        reference.
        """
        seed = paired_seed(record)
        paired = (one for one in self.of_budget(record) if paired_seed(one) == seed)
        found = next(paired, None) if requested.macs_of(record) else self.by_id.get(record.reference)
        return found if found is not None and found is not record and found.status == "done" else None

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
    return [_row(group, members, cells, dense_ms) for group, members in groups.items()]


def _row(group: Group, records: Sequence[Record], cells: _Cells, dense_ms: Mapping[DenseSetting, float]) -> Row:
    step_ms = next((dense_step_ms(record, dense_ms) for record in records if record.timing), None)
    members = tuple(sorted(records, key=record_order))
    row = Row(group=group, name=records[0].row, records=members, dense_step_ms=step_ms)

    # Scores of each seed, and of its dense reference, as far as they are finite.
    further = [figure.name for figure in further_figures(row.done)]
    for record in row.done:
        seed = paired_seed(record)
        own = _evaluation(record, group)
        paired = cells.reference(record)
        reference = _evaluation(paired, group) if paired and own else None
        for metric in (*METRICS, *further):
            for scores, evaluation in ((row.scores, own), (row.references, reference)):
                value = evaluation.figure(metric) if evaluation else None
                if value is not None and math.isfinite(value):
                    scores.setdefault(metric, {})[seed] = value
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


def _test(rows: Sequence[Row]) -> list[Row]:
    """The rows with their tests against dense, Holm-adjusted over the rows side by side, two-sided."""
    adjusted: dict[int, float] = {}
    for members in side_by_side(rows):
        tested: dict[int, float] = {}
        for row in members:
            p_value = paired_p_value(row.scores.get("fid", {}), row.references.get("fid", {}))
            if p_value is not None and not row.is_evaluated_by_teacher:
                tested[id(row)] = p_value
        adjusted |= zip(tested, holm(list(tested.values())), strict=True)
    return [replace(row, fid_p_value=adjusted.get(id(row))) for row in rows]


def _rank(rows: Sequence[Row]) -> list[Row]:
    """The rows, with those marked that may have the lowest FID of the group."""
    lowest = lowest_fids(rows)
    marked = []
    for row in rows:
        is_lowest = bool(lowest) and row is lowest[0]
        is_among_lowest = any(row is one for one in lowest)
        marked.append(replace(row, is_lowest_fid=is_lowest, is_among_lowest_fid=is_among_lowest))
    return marked


def fids_against_best(rows: Sequence[Row]) -> AgainstBest:
    """Return the FIDs of rows of one group, by their places in `rows`; without rows whose teacher measures their
    FID.
    """
    ranked = {str(place): row for place, row in enumerate(rows) if row.fid and not row.is_evaluated_by_teacher}
    return against_best({place: row.scores["fid"] for place, row in ranked.items()})


def lowest_fids(rows: Sequence[Row], among: Sequence[Row] | None = None) -> list[Row]:
    """Return the row of lowest mean FID and those that are not distinguishable from it; of all rows of a group, or of
    some.
    """
    chosen = None
    if among is not None:
        wanted = {id(row) for row in among}
        chosen = {str(place) for place, row in enumerate(rows) if id(row) in wanted}
    return [rows[int(place)] for place in fids_against_best(rows).best(chosen)]


def concluded(difference: MeanInterval | None, p_value: float | None) -> Standing:
    """Return what can be concluded from a difference in FID and its adjusted test."""
    if difference is None or difference.bounds is None:
        return "unknown"
    if p_value is not None and p_value <= LEVEL:
        return "worse" if difference.mean > 0 else "better"
    return "not beyond chance" if difference.excludes(0) else "open"


class Tested(NamedTuple):
    """A paired difference in FID, and what can be concluded from it."""

    difference: MeanInterval | None
    standing: Standing

    @property
    def is_significant(self) -> bool:
        return self.standing in ("better", "worse")


def tested(pairs: Iterable[tuple[Seeds, Seeds]]) -> list[Tested]:
    """Return the difference of each pair of FIDs by seed; their paired t-tests are Holm-adjusted over all pairs."""
    compared = list(pairs)
    adjusted = paired_p_values(compared)
    found = []
    for (own, other), p_value in zip(compared, adjusted, strict=True):
        difference = paired_difference(own, other)
        found.append(Tested(difference, concluded(difference, p_value)))
    return found
