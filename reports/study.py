"""A run's records on their way to its page, each step made once: frame -> differences -> rows -> decisions.

There is one row per configuration, all seeds together, beside its reference. Rows are in groups: same architecture,
data, weights to start from, objective, metric protocol and iteration. Only rows of one group are ranked. A row with a
budget is in the group of the row that its budget names, whatever its length and architecture.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import groupby

import pandas as pd

from tread_bench.core.config.choices import PLAINLY_DENSE
from tread_bench.core.stored.documents import Registered
from tread_bench.core.stored.records import Record, of_study, paired_seed
from tread_bench.reports import requested
from tread_bench.reports.decision import Decision, decisions
from tread_bench.reports.differences import compared_rows, trainings_of
from tread_bench.reports.frame import data_of, dense_step_ms, dense_steps_ms, record_order, results_frame
from tread_bench.reports.questions import onset
from tread_bench.reports.row import Group, Row, by_key, name_rows, side_by_side


class Study:
    """The records of a run, in any order, and what follows from them; of a smoke run, nothing is ranked or decided.

    `candidates` are the records that only helped to choose learning rates; `stated` is the hypothesis of the run.
    """

    def __init__(self, records: Iterable[Record], is_smoke: bool = False, stated: Registered | None = None) -> None:
        given = list(records)
        self.records = sorted(of_study(given), key=record_order)
        self.candidates = [record for record in given if record.role == "tuning"]
        self.is_smoke = is_smoke
        self.stated = None if is_smoke else stated

    def is_over(self, planned: int) -> bool:
        """Return whether as many cells as were planned have ended."""
        return len(self.records) + len(self.candidates) >= planned

    @cached_property
    def frame(self) -> pd.DataFrame:
        """A line per cell and evaluated iteration, as in results.csv."""
        return results_frame(self.records, self.is_smoke)

    @cached_property
    def rows(self) -> list[Row]:
        """A row per configuration and protocol, group by group, dense first."""
        # The seeds of one configuration and protocol make a row, beside its reference, which need not have finished.
        row_of_cell = {record.cell: record.row for record in self.records}
        by_row = by_key(self.records, lambda record: (record.suite, record.row))
        dense_ms = dense_steps_ms(self.records)
        rows: list[Row] = []
        for _, seeds in groupby(self.records, lambda record: record_order(record)[:-2]):
            alike = [*seeds]
            budget = requested.macs_of(alike[0])
            for group, members in _by_protocol(alike, by_row.get((alike[0].suite, budget), [])).items():
                step_ms = next((dense_step_ms(record, dense_ms) for record in members if record.timing), None)
                reference = budget or row_of_cell.get(members[0].reference, "")
                row = Row(
                    group=group, name=members[0].row, records=tuple(members), dense_step_ms=step_ms,
                    is_smoke=self.is_smoke, reference_name=reference,
                )  # fmt: skip
                rows.append(row)
        trainings = trainings_of(self.frame)
        compared = compared_rows(trainings)
        for row in rows:
            row.differences = {(one.at, one.metric): one for one in compared.get(row.key, ())}
            own = {paired_seed(record) for record in row.done}  # seeds that ended at another iteration are another row
            if (of_row := trainings.get(row.key)) is None:
                continue
            for metric in of_row.metrics:
                settled = of_row.settled(row.group.iteration, metric)
                if scores := {seed: score for seed, score in settled.items() if seed in own}:
                    row.scores[metric] = scores

        # Rows of one group are next to each other; one without a finished cell is with those like it.
        groups = [row.group for row in rows if row.done]
        for row in rows:
            same = [group for group in groups if group[:4] == row.group[:4]]
            if same and not row.done:
                row.group = min(same)
        rows.sort(key=lambda row: (row.group, row.first.backbone != row.group.backbone, record_order(row.first)))
        if not self.is_smoke:
            for _, of_group in groupby(rows, lambda row: row.group):
                # The lowest FID of those with as many seeds as any.
                fids = {row: row.fid for row in of_group if row.fid and not row.is_evaluated_by_teacher}
                most = max((fid.n for fid in fids.values()), default=0)
                lowest = min((fid.mean for fid in fids.values() if fid.n == most), default=None)
                for row, fid in fids.items():
                    row.is_lowest_fid = (fid.n, fid.mean) == (most, lowest)

        # What they, and what they are compared with, are called.
        name_rows(rows)
        labels = {(row.first.suite, row.name): row.short_label for row in rows}
        references = {(row.first.suite, row.reference_name) for row in rows}
        for row in rows:
            name = row.reference_name
            row.reference_label = labels.get((row.first.suite, name), name or PLAINLY_DENSE.name)
            row.is_reference = (row.first.suite, row.name) in references
        return rows

    @cached_property
    def sets(self) -> list[list[Row]]:
        """Rows that stand side by side."""
        return side_by_side(self.rows)

    @cached_property
    def decisions(self) -> list[tuple[list[Row], Decision]]:
        """A decision for each group of rows that are ranked together, if routes are among them."""
        return decisions(self.sets)

    @cached_property
    def onsets(self) -> list[onset.Panel]:
        """From how much compute on routing pays, if the run stated that it would say so."""
        return [*onset.panels(self.records, self.stated)] if self.stated else []


def _by_protocol(records: Sequence[Record], of_budget: Sequence[Record]) -> dict[Group, list[Record]]:
    """The records by the protocol that finished cells were measured under; unfinished cells are with the first.

    With a budget, architecture and iteration of a group are those of the row that it names. Where no cell of that row
    has finished, its iteration is the last that was requested.
    """
    ends = [one.last.iteration for one in of_budget if one.status == "done" and one.last]
    end = max(ends or map(requested.iterations, of_budget), default=0)

    def group(record: Record) -> Group:
        last = record.last
        backbone = of_budget[0].backbone if of_budget else record.backbone
        found = Group(backbone, data_of(record), requested.objective_in_full(record), requested.start(record), "", 0)
        if last is None or record.status != "done":
            return found
        return found._replace(protocol=last.protocol or "", iteration=end or last.iteration)

    groups = by_key([record for record in records if record.status == "done"], group)
    first = next(iter(groups), group(records[0]))
    groups.setdefault(first, []).extend(record for record in records if record.status != "done")
    for members in groups.values():
        members.sort(key=record_order)
    return groups
