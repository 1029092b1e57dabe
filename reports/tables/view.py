"""The comparison as a table for people: each column is sorted by a number and shows it with its interval."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Literal, NamedTuple

from tread_bench.core.stored.records import Record
from tread_bench.reports.differences import END, ITERATIONS, MACS, TIME, Differences
from tread_bench.reports.frame import further_figures, recovered_at, title_of
from tread_bench.reports.published import published_fid
from tread_bench.reports.questions.guidance import is_swept
from tread_bench.reports.rows import requested
from tread_bench.reports.rows.comparison import METRICS
from tread_bench.reports.rows.row import Row
from tread_bench.reports.tables.tables import NOT_REACHED, Entry, Table, estimate_entry, ratio_entry
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


def comparison_view(rows: Sequence[Row], compared: Differences) -> TableView:
    """Return the rows of one group. Columns that are empty in all rows are left out."""
    headers = []
    parts = []
    columns = []
    for part, of_part in _columns(rows, compared).items():
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


def _columns(rows: Sequence[Row], compared: Differences) -> dict[Part, Columns]:
    return {
        "FID": [
            ("Seeds", "finished seeds, of those that have a record", _seeds),
            *_guidance_columns(rows),
            *_metric_columns(rows, compared, "fid", title_of("fid")),
            (
                "Published",
                "FID in the paper of TREAD or DiG for that model, route, guidance, scale and length of training, by "
                "another protocol",
                _published,
            ),
            *_equal_cost_columns(rows, compared),
        ],
        "Other metrics": _other_metrics(rows, compared),
        "Cost and speed": _costs(rows),
    }


def _other_metrics(rows: Sequence[Row], compared: Differences) -> Columns:
    further = further_figures(chain.from_iterable(row.records for row in rows))
    return [
        *_metric_columns(rows, compared, "validation_loss", "Val. loss"),
        *_metric_columns(rows, compared, "kid", title_of("kid")),
        *chain.from_iterable(_metric_columns(rows, compared, one.name, one.title, one.definition) for one in further),
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


def _costs(rows: Sequence[Row]) -> Columns:
    references = {row.name: row for row in rows}
    mib = min(1, decimals(row.timing("peak_memory_mib") for row in rows))
    activations = decimals(row.timing("activation_memory_mib") for row in rows)
    speed = min(1, decimals(row.images_per_s for row in rows))
    gmacs = decimals((row.cost("dense_forward_macs") or 0) / 1e9 for row in rows)
    return [
        (
            "Speed-up",
            "speed-up of a training step against the reference; where both were not timed in pairs, the ratio of their "
            "seconds, without an interval",
            lambda row: _speedup(row, references.get(row.reference_name)),
        ),
        (
            "Ideal",
            "speed-up without overhead, against the same network: its forward MACs over the row’s",
            lambda row: _plain(_ideal(row, references.get(row.reference_name)), 2),
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


def _ideal(row: Row, reference: Row | None) -> float | None:
    """Against what its speed-up is: of another network that was not timed in pairs with its reference, that one."""
    own, other = row.cost("forward_macs"), reference.cost("forward_macs") if reference else None
    if requested.is_evaluated_only(row.first) or not own:
        return None
    if reference is None or reference.dense_step_ms == row.dense_step_ms or not other:
        return row.ideal_speedup
    return other / own


def _published(row: Row) -> Entry:
    found = published_fid(row)
    return Entry(number(found.fid), found.caveat, found.fid) if found else Entry(DASH)


def _metric_columns(
    rows: Sequence[Row], compared: Differences, metric: str, title: str, definition: str = ""
) -> Columns:
    """A figure's mean and its difference from the reference; the definition of what readers may not know."""
    estimates = [row.metric(metric) for row in rows]
    places = decimals(estimate.mean for estimate in estimates if estimate)
    references = dict.fromkeys(row.reference_label for row in rows if compared.of(row, ITERATIONS, metric))

    def mean(row: Row) -> Entry:
        return estimate_entry(row.metric(metric), places, can_be_negative=metric not in METRICS)

    def difference(row: Row) -> Entry:
        estimate = compared.of(row, ITERATIONS, metric)
        is_reference = estimate is None and row.is_reference
        return Entry("reference") if is_reference else estimate_entry(estimate, places, signed=True)

    against = "the same checkpoint without guidance" if is_swept(rows) else " or ".join(references) or "dense"
    what = f"{definition}; mean over seeds" if definition else "mean over seeds"
    return [(title, what, mean), (f"Δ {title}", f"paired difference to {against}", difference)]


def _equal_cost_columns(rows: Sequence[Row], compared: Differences) -> Columns:
    """What the rows have at equal cost, where that is not what they have at equal iterations."""
    has_target = any(compared.line(row, END, "training_macs") for row in rows)
    if not has_target and not any(map(compared.is_of_its_own, rows)):
        return []
    places = decimals(row.fid.mean for row in rows if row.fid)

    # What each column shows of a row.
    def at_macs(row: Row) -> Entry:
        return estimate_entry(compared.of(row, MACS), places, signed=True)

    def at_time(row: Row) -> Entry:
        line = compared.line(row, TIME)
        if line and not line.in_pairs:
            return Entry(number(line.estimate.mean, places, signed=True), _NOT_IN_PAIRS, line.estimate.mean)
        return estimate_entry(line.estimate if line else None, places, signed=True)

    def to_target(row: Row) -> Entry:
        line = compared.line(row, END, "training_macs")
        if line is None:
            return Entry(DASH)
        found = line.estimate
        key = found.mean if math.isfinite(found.mean) else NOT_REACHED
        if found.bounds is None:
            return Entry(ratio(found.mean), f"{line.reached} of {found.n} seeds", key)
        return Entry(ratio(found.mean), f"{ratio(found.bounds[0])} to {ratio(found.bounds[1])}", key)

    # The columns, and how the rows were brought to equal cost.
    def how(at: str) -> str:
        ways = {line.evaluated for row in rows if (line := compared.line(row, at))}
        parts = ["as evaluated"] if True in ways else []
        return " or ".join([*parts, "on the fit between evaluated points"] if False in ways else parts)

    return [
        ("Δ FID, equal MACs", f"paired difference to the reference at equal training MACs, {how(MACS)}", at_macs),
        (
            "Δ FID, equal time",
            f"the same at equal measured training time, {how(TIME)}; the interval covers the seeds and the interval of "
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
