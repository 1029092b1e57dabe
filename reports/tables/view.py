"""The comparison as a table for people: each column is sorted by a number and shows it with its interval."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Literal, NamedTuple

from tread_bench.core.numbers.curves import Reached
from tread_bench.core.stored.records import Record
from tread_bench.reports.claims.equal_cost import AtEqualCost, equal_costs
from tread_bench.reports.claims.guidance import is_swept
from tread_bench.reports.claims.published import published_fid
from tread_bench.reports.frame import further_figures, recovered_at, title_of
from tread_bench.reports.rows import requested
from tread_bench.reports.rows.comparison import METRICS
from tread_bench.reports.rows.row import Row
from tread_bench.reports.tables.tables import NOT_REACHED, Entry, Table, difference_entry, estimate_entry, ratio_entry
from tread_bench.reports.text.numbers import DASH, decimals, number, ratio

Part = Literal["FID", "Other metrics", "Cost and speed"]
Columns = list[tuple[str, str, Callable[[Row], Entry]]]  # title, what it means, what it shows of a row


_NOT_IN_PAIRS = "not in pairs"  # nor with an interval: none would cover what disturbed the clock


class TableView(NamedTuple):
    headers: list[tuple[str, str]]  # title, hint
    parts: list[Part]  # of each column: a page shows the parts below each other, so that none is cut off
    rows: list[tuple[Row, list[Entry]]]

    def split(self) -> dict[Part, TableView]:
        """Return a table for each part."""
        tables = {}
        for part in dict.fromkeys(self.parts):
            places = [place for place, name in enumerate(self.parts) if name == part]
            headers = [self.headers[place] for place in places]
            rows = [(row, [shown[place] for place in places]) for row, shown in self.rows]
            tables[part] = TableView(headers, [part] * len(places), rows)
        return tables


def comparison_view(rows: Sequence[Row]) -> TableView:
    """Return the rows of one group. Columns that are empty in all rows are left out."""
    headers = []
    parts = []
    columns = []
    for part, of_part in _columns(rows).items():
        for title, hint, cell in of_part:
            column = [cell(row) for row in rows]
            if any(shown.key is not None for shown in column):
                headers.append((title, hint))
                parts.append(part)
                columns.append(column)
    return TableView(headers, parts, [(row, [column[place] for column in columns]) for place, row in enumerate(rows)])


def published(name: str, title: str, view: TableView) -> Table:
    """Return the same table for papers: `name` is its file name without the ending."""
    lines = [[Entry(row.short_label), *shown] for row, shown in view.rows]
    return Table(name, title, ("Row", *(header for header, _ in view.headers)), lines)


def _columns(rows: Sequence[Row]) -> dict[Part, Columns]:
    compared = equal_costs(rows)
    return {
        "FID": [
            ("Seeds", "finished seeds, of those that have a record", _seeds),
            *_guidance_columns(rows),
            *_metric_columns(rows, "fid", title_of("fid")),
            (
                "Published",
                "FID in the paper of TREAD or DiG for that model, route, guidance, scale and length of training, by "
                "another protocol",
                _published,
            ),
            *_equal_cost_columns(rows, compared),
        ],
        "Other metrics": _other_metrics(rows),
        "Cost and speed": _costs(rows, {id(one.row): one.reference for one in compared}),
    }


def _other_metrics(rows: Sequence[Row]) -> Columns:
    further = further_figures(chain.from_iterable(row.records for row in rows))
    return [
        *_metric_columns(rows, "validation_loss", "Val. loss"),
        *_metric_columns(rows, "kid", title_of("kid")),
        *chain.from_iterable(_metric_columns(rows, figure.name, figure.title) for figure in further),
        (
            "Recovered at",
            "first evaluated iteration from which on the validation loss is not above that before the first step: the "
            "last of all seeds",
            _recovered,
        ),
    ]


def _recovered(row: Row) -> Entry:
    measured = _evaluated_from_0(row)
    if not measured:
        return Entry(DASH)
    found = [iteration for record in measured if (iteration := recovered_at(record)) is not None]
    if len(found) < len(measured):
        return Entry("not reached", f"by {len(measured) - len(found)} of {len(measured)} seeds", NOT_REACHED)
    return Entry(f"{max(found):,}", "", max(found))


def _evaluated_from_0(row: Row) -> list[Record]:
    return [one for one in row.done if len(one.evaluations) > 1 and not one.evaluations[0].iteration]


def _costs(rows: Sequence[Row], references: Mapping[int, Row]) -> Columns:
    mib = min(1, decimals(row.timing("peak_memory_mib") for row in rows))
    activations = decimals(row.timing("activation_memory_mib") for row in rows)
    speed = min(1, decimals(row.images_per_s for row in rows))
    gmacs = decimals((row.cost("dense_forward_macs") or 0) / 1e9 for row in rows)
    return [
        (
            "Speed-up",
            "speed-up of a training step against the reference; where both were not timed in pairs, the ratio of their "
            "seconds, without an interval",
            lambda row: _speedup(row, references.get(id(row))),
        ),
        (
            "Ideal",
            "speed-up without overhead: forward MACs of the dense network that it was timed in turn with, over its own",
            lambda row: _plain(None if requested.is_evaluated_only(row.first) else row.ideal_speedup, 2),
        ),
        ("GMACs", "forward pass of one image, in 10⁹ multiply-adds", lambda row: _macs(row, 1, gmacs)),
        ("GFLOPs", "twice the GMACs", lambda row: _macs(row, 2, gmacs)),
        *([] if _guidance_columns(rows) else _sampling_columns(rows)),
        ("Extra parameters", "parameters that the method and its auxiliary losses add", _extra),
        (
            "Images/s",
            "training speed: the dense rate of the run times the speed-up",
            lambda row: _plain(row.images_per_s, speed),
        ),
        (
            "Data wait",
            "share of the training loop in which the device waited for a batch, timed alone; not part of the speed-up",
            _data_wait,
        ),
        ("MiB", "peak memory of training; see memory_kind", lambda row: _plain(row.timing("peak_memory_mib"), mib)),
        (
            "Activations, MiB",
            "memory of what a training step keeps for its backward pass",
            lambda row: _plain(row.timing("activation_memory_mib"), activations),
        ),
    ]


def _speedup(row: Row, reference: Row | None) -> Entry:
    """Against the reference of the row's FID, which may be of another size and so have a dense step of its own."""
    if reference is None or reference.dense_step_ms == row.dense_step_ms:
        return ratio_entry(row.speedup)
    if reference.images_per_s is None or row.images_per_s is None:
        return Entry(DASH)
    times_as_fast = row.images_per_s / reference.images_per_s
    return Entry(number(times_as_fast), _NOT_IN_PAIRS, times_as_fast)


def _published(row: Row) -> Entry:
    found = published_fid(row)
    return Entry(number(found.fid), found.caveat, found.fid) if found else Entry(DASH)


def _metric_columns(rows: Sequence[Row], metric: str, title: str) -> Columns:
    estimates = [row.metric(metric) for row in rows]
    places = decimals(estimate.mean for estimate in estimates if estimate)
    references = dict.fromkeys(row.reference_label for row in rows if row.difference(metric))

    def mean(row: Row) -> Entry:
        return estimate_entry(row.metric(metric), places, can_be_negative=metric not in METRICS)

    def difference(row: Row) -> Entry:
        return difference_entry(row, metric, places)

    against = "the same checkpoint without guidance" if is_swept(rows) else " or ".join(references) or "dense"
    return [(title, "mean over seeds", mean), (f"Δ {title}", f"paired difference to {against}", difference)]


def _equal_cost_columns(rows: Sequence[Row], compared: Sequence[AtEqualCost]) -> Columns:
    """What the rows have at equal cost, where that is not what they have at equal iterations."""
    if not any(one.is_of_its_own or one.macs_to_target for one in compared):
        return []
    places = decimals(row.fid.mean for row in rows if row.fid)
    found = {id(one.row): one for one in compared}
    nothing = AtEqualCost(row=rows[0], reference=rows[0])

    # What each column shows of a row.
    def at_macs(row: Row) -> Entry:
        return estimate_entry(found.get(id(row), nothing).at_macs, places, signed=True)

    def at_time(row: Row) -> Entry:
        one = found.get(id(row), nothing)
        if one.at_time and not one.is_timed_in_pairs:
            return Entry(number(one.at_time.mean, places, signed=True), _NOT_IN_PAIRS, one.at_time.mean)
        return estimate_entry(one.at_time, places, signed=True)

    def to_target(row: Row) -> Entry:
        return _reached(found.get(id(row), nothing).macs_to_target)

    # The columns, and how the rows were brought to equal MACs.
    ways = {one.is_trained for one in compared if one.at_macs}
    how = "as trained, or on the fit between evaluated points"
    if len(ways) < 2:
        how = "on the fit between evaluated points" if False in ways else "to which the rows were trained"
    clocks = {one.is_evaluated_at_time for one in compared if one.at_time}
    by_clock = "evaluated there, or on the fit between evaluated points"
    if len(clocks) < 2:
        by_clock = "on the fit between evaluated points" if False in clocks else "where the rows were evaluated as well"
    return [
        ("Δ FID, equal MACs", f"paired difference to the reference at equal training MACs, {how}", at_macs),
        (
            "Δ FID, equal time",
            f"the same at equal measured training time, {by_clock}; the interval covers the seeds and the interval of "
            "the speed-up",
            at_time,
        ),
        (
            "MACs to target",
            "training MACs to come down to the reference’s FID at its end, as a ratio to the reference’s own: median "
            "over seeds",
            to_target,
        ),
    ]


def _reached(found: Reached | None) -> Entry:
    if found is None:
        return Entry(DASH)
    key = found.ratio if math.isfinite(found.ratio) else NOT_REACHED
    if found.low is None or found.high is None:
        return Entry(ratio(found.ratio), f"{found.reached} of {found.n} seeds", key)
    return Entry(ratio(found.ratio), f"{ratio(found.low)} to {ratio(found.high)}", key)


def _guidance_columns(rows: Sequence[Row]) -> Columns:
    """Where rows differ in guidance."""
    if len({requested.guided(row.first) for row in rows}) < 2:
        return []
    return [
        ("Guidance", "rule of guidance while sampling", _rule),
        (
            "Scale",
            "scale of guidance",
            lambda row: _plain(requested.guidance_scale(row.first) if _rule(row).key else None, 2),
        ),
        *_sampling_columns(rows),
    ]


def _sampling_columns(rows: Sequence[Row]) -> Columns:
    """Where a sample of one row costs more than one of another."""
    if len({row.sampling_macs for row in rows}) < 2:
        return []
    places = decimals((row.sampling_macs or 0) / 1e9 for row in rows)
    return [("Sampling GMACs", "for one image, over all steps and branches", lambda row: _sampling(row, places))]


def _rule(row: Row) -> Entry:
    rule = requested.rule_in_words(row.first)
    return Entry(rule or "none", "", rule or None)


def _sampling(row: Row, places: int) -> Entry:
    return _plain(row.sampling_macs and row.sampling_macs / 1e9, places)


def _trained(row: Row, name: str) -> float | None:
    """A cost of training; none for a row that evaluates what another trained."""
    return None if requested.is_evaluated_only(row.first) else row.cost(name)


def _extra(row: Row) -> Entry:
    extra = row.extra_params
    return Entry(f"{extra:,.0f}" if extra else "none", "", extra or None)


def _seeds(row: Row) -> Entry:
    done = len(row.done)
    planned = len(row.records)
    return Entry(f"{done}" if done == planned else f"{done} of {planned}", "", done)


def _macs(row: Row, factor: int, places: int) -> Entry:
    macs = _trained(row, "forward_macs")
    return _plain(None if macs is None else factor * macs / 1e9, places)


def _data_wait(row: Row) -> Entry:
    share = row.timing("data_wait_share")
    return _plain(None, 1) if share is None else Entry(f"{100 * share:.1f} %", "", share)


def _plain(value: float | None, places: int) -> Entry:
    return Entry(number(value, places), "", value)
