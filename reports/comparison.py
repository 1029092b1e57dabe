"""The comparison as a table for people: each column is sorted by a number and shows it with its interval."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Literal

from tread_bench.reports import requested
from tread_bench.reports.differences import END, ITERATIONS, MACS, TIME
from tread_bench.reports.frame import STANDARD_METRICS, further_figures, recovered_at, title_of
from tread_bench.reports.published import published_fid
from tread_bench.reports.questions.guidance import is_swept
from tread_bench.reports.row import Row
from tread_bench.reports.tables import NOT_REACHED, Entry, Table, estimate_entry
from tread_bench.reports.text.numbers import DASH, decimals, number, ratio

Part = Literal["FID", "Other metrics", "Cost and speed"]
_NOT_IN_PAIRS = "not in pairs"  # nor with an interval: none would cover what disturbed the clock
_SHORT = {  # columns where there is room for few -> how they are headed in 100 characters
    "Δ FID, equal MACs": "Δ FID at\nequal MACs",
    "Δ FID, equal time": "Δ FID at\nequal time",
    "Δ FID": "Δ FID at equal\niterations",
    "Speed-up": "Speed-up",
    "GMACs": "GMACs",
}
ShortTable = tuple[list[str], list[tuple[str, list[Entry]]]]  # headers; a row's name and what it shows


@dataclass(frozen=True)
class Column:
    title: str
    hint: str  # what it means
    entries: Sequence[Entry]  # of each row


@dataclass(frozen=True)
class TableView:
    """The rows of one group; a page shows the parts of its columns below each other, so that none is cut off."""

    title: str
    members: Sequence[Row]
    parts: dict[Part, list[Column]]

    @property
    def columns(self) -> dict[str, Column]:
        """By title."""
        return {column.title: column for column in chain.from_iterable(self.parts.values())}

    def as_table(self, name: str) -> Table:
        """Return the same table for papers: `name` is its file name without the ending."""
        labels = [Entry(row.short_label) for row in self.members]
        lines = [*zip(labels, *(one.entries for one in self.columns.values()), strict=True)]
        return Table(name, self.title, ("Row", *self.columns), lines)


def comparison_view(rows: Sequence[Row], title: str = "") -> TableView:
    """Return the rows of one group. Columns that are empty in all rows are left out."""
    view = TableView(title, rows, {})
    of_parts: dict[Part, Iterator[Column]] = {
        "FID": _fid(rows), "Other metrics": _others(rows), "Cost and speed": _costs(rows),
    }  # fmt: skip
    for part, columns in of_parts.items():
        for column in columns:
            if any(entry.key is not None for entry in column.entries):
                view.parts.setdefault(part, []).append(column)
    return view


def short_tables(rows: Sequence[Row]) -> list[ShortTable]:
    """Return the main columns of each group of rows that may be ranked together, for a terminal and a notebook.

    Figures of added metrics are columns, too. FID itself is shown where no row is compared with another, and the MACs
    of a sample where no row trains.
    """
    added = {figure.title: figure.title for figure in further_figures(chain.from_iterable(row.records for row in rows))}
    tables = []
    for _, members in groupby(rows, key=lambda row: row.group):
        of_group = list(members)
        columns = comparison_view(of_group).columns
        fid = {} if "Δ FID" in columns else {"FID": "FID"}
        sampling = {} if "GMACs" in columns else {"Sampling GMACs": "Sampling\nGMACs"}
        shown = {title: name for title, name in (fid | _SHORT | sampling | added).items() if title in columns}
        lines = []
        for place, row in enumerate(of_group):
            lines.append((row.name, [columns[title].entries[place] for title in shown]))
        tables.append(([*shown.values()], lines))
    return tables


def _fid(rows: Sequence[Row]) -> Iterator[Column]:
    seeds = []
    for row in rows:
        done, planned = len(row.done), len(row.records)
        seeds.append(Entry(f"{done}" if done == planned else f"{done} of {planned}", "", done))
    yield Column("Seeds", "finished seeds, of those that have a record", seeds)
    if _differ_in_guidance(rows):
        rules = [requested.rule_in_words(row.first) for row in rows]
        scales = [requested.guidance_scale(row.first) if requested.is_guided(row.first) else None for row in rows]
        yield Column("Guidance", "rule of guidance while sampling", [Entry(r or "none", "", r or None) for r in rules])
        yield _numbers("Scale", "scale of guidance", scales, 2)
        yield from _sampling(rows)
    yield from _metric(rows, "fid", title_of("fid"))
    found = [published_fid(row) for row in rows]
    yield Column(
        "Published",
        "FID in the paper of TREAD or DiG for that model, route, guidance, scale and length of training, by another "
        "protocol",
        [Entry(number(one.fid), one.caveat, one.fid) if one else Entry(DASH) for one in found],
    )
    if any(row.differs_at_equal_macs or row.compared(END, "training_macs") for row in rows):
        yield from _at_equal_cost(rows)


def _others(rows: Sequence[Row]) -> Iterator[Column]:
    yield from _metric(rows, "validation_loss", "Val. loss")
    yield from _metric(rows, "kid", title_of("kid"))
    for figure in further_figures(chain.from_iterable(row.records for row in rows)):
        yield from _metric(rows, figure.name, figure.title, figure.definition)
    yield Column(
        "Recovered at",
        "first evaluated iteration from which on the validation loss is not above that before the first step: the last "
        "of all seeds",
        [_recovered(row) for row in rows],
    )


def _recovered(row: Row) -> Entry:
    iterations = []
    for record in row.done:
        if len(record.evaluations) > 1 and not record.evaluations[0].iteration:
            iterations.append(recovered_at(record))
    if not iterations:
        return Entry(DASH)
    if lost := iterations.count(None):
        return Entry("not reached", f"by {lost} of {len(iterations)} seeds", NOT_REACHED)
    last = max(iteration or 0 for iteration in iterations)
    return Entry(f"{last:,}", "", last)


def _costs(rows: Sequence[Row]) -> Iterator[Column]:
    references = {row.name: row for row in rows}
    speeds, ideals, gmacs = [], [], []
    for row in rows:
        macs = None if requested.is_evaluated_only(row.first) else row.cost("forward_macs")
        speed, ideal = Entry(DASH), row.ideal_speedup
        if row.speedup:
            times_as_fast, low, high = row.speedup
            speed = Entry(number(times_as_fast), f"{number(low)} to {number(high)}", times_as_fast, (low, high))
        other = references.get(row.reference_name)
        if other and other.dense_step_ms != row.dense_step_ms:
            # Of another size than the reference of its FID, it was timed in turn with a dense step of its own.
            speed, other_macs = Entry(DASH), other.cost("forward_macs")
            if other.images_per_s and row.images_per_s:
                times_as_fast = row.images_per_s / other.images_per_s
                speed = Entry(number(times_as_fast), _NOT_IN_PAIRS, times_as_fast)
            if macs and other_macs:
                ideal = other_macs / macs
        speeds.append(speed)
        ideals.append(ideal if macs else None)
        gmacs.append(macs and macs / 1e9)
    yield Column(
        "Speed-up",
        "speed-up of a training step against the reference; where the two were not timed in pairs, the ratio of "
        "their images per second, without an interval",
        speeds,
    )
    hint = "speed-up without overhead: forward MACs of what the row is timed or compared with, over the row’s"
    yield _numbers("Ideal", hint, ideals, 2)

    # Costs of what trains.
    places = decimals((row.cost("dense_forward_macs") or 0) / 1e9 for row in rows)
    yield _numbers("GMACs", "forward pass of one image, in 10⁹ multiply-adds", gmacs, places)
    yield _numbers("GFLOPs", "twice the GMACs", [macs and 2 * macs for macs in gmacs], places)
    if not _differ_in_guidance(rows):
        yield from _sampling(rows)
    extra = [row.extra_params for row in rows]
    yield Column(
        "Extra parameters", "parameters that the method and its auxiliary losses add",
        [Entry(f"{count:,.0f}" if count else "none", "", count or None) for count in extra],
    )  # fmt: skip
    rates = [row.images_per_s for row in rows]
    hint = "training speed: the dense rate of the run times the speed-up"
    yield _numbers("Images/s", hint, rates, min(1, decimals(rates)))
    waits = [row.timing("data_wait_share") for row in rows]
    yield Column(
        "Data wait",
        "share of the training loop in which the device waited for a batch, timed alone; not part of the speed-up",
        [Entry(DASH) if share is None else Entry(f"{100 * share:.1f} %", "", share) for share in waits],
    )
    memory = [row.timing("peak_memory_mib") for row in rows]
    yield _numbers("MiB", "peak memory of training; see memory_kind", memory, min(1, decimals(memory)))


def _metric(rows: Sequence[Row], metric: str, title: str, definition: str = "") -> Iterator[Column]:
    """A figure's mean and its difference from the reference; the definition of what readers may not know."""
    estimates = [row.metric(metric) for row in rows]
    places = decimals(estimate.mean for estimate in estimates if estimate)
    what = "; ".join(filter(None, (definition, "mean over seeds")))
    can_be_negative = metric not in STANDARD_METRICS
    yield Column(title, what, [estimate_entry(one, places, can_be_negative=can_be_negative) for one in estimates])

    references = dict.fromkeys(row.reference_label for row in rows if row.difference(ITERATIONS, metric))
    against = "the same checkpoint without guidance" if is_swept(rows) else " or ".join(references) or "dense"
    differences = []
    for row in rows:
        estimate = row.difference(ITERATIONS, metric)
        is_reference = estimate is None and row.is_reference
        differences.append(Entry("reference") if is_reference else estimate_entry(estimate, places, signed=True))
    yield Column(f"Δ {title}", f"paired difference to {against}", differences)


def _at_equal_cost(rows: Sequence[Row]) -> Iterator[Column]:
    """What the rows have at equal cost, where that is not what they have at equal iterations."""
    # Differences in FID at equal cost.
    places = decimals(row.fid.mean for row in rows if row.fid)
    for at, title, hint in (
        (MACS, "Δ FID, equal MACs", "paired difference to the reference at equal training MACs, {}"),
        (
            TIME, "Δ FID, equal time",
            "the same at equal measured training time, {}; the interval covers the seeds and the interval of the "
            "speed-up",
        ),
    ):  # fmt: skip
        entries, ways = [], set()
        for row in rows:
            one = row.compared(at)
            entry = estimate_entry(row.difference(at), places, signed=True)
            if one:
                ways.add("as evaluated" if one.evaluated else "on the fit between evaluated points")
                if at == TIME and not one.in_pairs:
                    entry = entry._replace(below=_NOT_IN_PAIRS)
            entries.append(entry)
        yield Column(title, hint.format(" or ".join(sorted(ways))), entries)

    # The cost of coming down to the FID that the reference ends at.
    to_target = []
    for row in rows:
        one = row.compared(END, "training_macs")
        if one is None:
            to_target.append(Entry(DASH))
            continue
        below = f"{one.reached} of {one.estimate.n} seeds"
        if one.estimate.bounds:
            below = " to ".join(map(ratio, one.estimate.bounds))
        key = one.estimate.mean if math.isfinite(one.estimate.mean) else NOT_REACHED
        to_target.append(Entry(ratio(one.estimate.mean), below, key))
    yield Column(
        "MACs to target",
        "training MACs to come down to the reference’s FID at its end, as a ratio to the reference’s own: median over "
        "seeds",
        to_target,
    )


def _differ_in_guidance(rows: Sequence[Row]) -> bool:
    return len({requested.guided(row.first) for row in rows}) > 1


def _sampling(rows: Sequence[Row]) -> Iterator[Column]:
    """Where a sample of one row costs more than one of another."""
    macs = [row.sampling_macs and row.sampling_macs / 1e9 for row in rows]
    if len(set(macs)) > 1:
        yield _numbers("Sampling GMACs", "for one image, over all steps and branches", macs, decimals(macs))


def _numbers(title: str, hint: str, values: Sequence[float | None], places: int) -> Column:
    return Column(title, hint, [Entry(number(value, places), "", value) for value in values])
