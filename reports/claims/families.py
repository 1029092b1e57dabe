"""What a run of several architectures or objectives says: of each against its own dense row, and no ranking of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tread_bench.reports.claims.equal_cost import AtEqualCost, equal_costs
from tread_bench.reports.claims.verdict import against_reference, at_equal_cost, comparable, outcome, ranked, runners_up
from tread_bench.reports.rows import requested
from tread_bench.reports.rows.architectures import by_architecture, what_differs
from tread_bench.reports.rows.comparison import Standing, are_beside_dense, concluded, lowest_fids
from tread_bench.reports.rows.row import Row
from tread_bench.reports.text.numbers import decimals, millions, names, number, plural

_VERDICTS: dict[tuple[Standing, ...], str] = {
    ("better",): "better than {training}",
    ("open", "not beyond chance"): "not significantly different from {reference}",
    ("worse",): "worse than {reference}",
    ("unknown",): "without a verdict",
}
_ROUTED = "routed row"


def summary(rows: Sequence[Row]) -> str:
    """Over all architectures: where the best routed row gains, loses, or does not differ from its reference.

    First at equal training MACs, where that is known of some, then at equal iterations.
    """
    # The outcome of each architecture's best row.
    architectures = by_architecture(rows)
    at_iterations: dict[str, Standing] = {}
    for members in architectures:
        best = _best(members)
        at_iterations[members[0].architecture] = outcome(best) if best else "unknown"
    at_cost: dict[str, Standing] = {}
    for members, compared in _at_cost(rows):
        if compared:
            at_cost[members[0].architecture] = concluded(compared[0].at_macs, compared[0].at_macs_p)

    # What was compared.
    noun = _noun(rows)
    if any(sum(not row.is_dense for row in members) > 1 for members in architectures):
        what = f"the best {noun}"
    elif noun == _ROUTED:
        what = "routing"
    else:
        what = f"the {noun}"

    # The architectures of each outcome.
    if not at_cost:
        return f"In FID, {what} is {_where(at_iterations, rows)}."
    return (
        f"In FID at equal training MACs, {what} is {_where(at_cost, rows)}. "
        f"At equal iterations, it is {_where(at_iterations, rows)}."
    )


def _where(outcomes: Mapping[str, Standing], rows: Sequence[Row]) -> str:
    """Such as "better than dense training in DiT; worse than dense in ZigMa"."""
    within = "under" if what_differs(rows) == "objective" else "in"
    training, reference = ("dense training", "dense") if are_beside_dense(rows) else ("its reference", "its reference")
    parts = []
    for alike, verdict in _VERDICTS.items():
        architectures = [architecture for architecture, found in outcomes.items() if found in alike]
        if architectures:
            said = verdict.format(training=training, reference=reference)
            parts.append(f"{said} {within} {names(architectures)}")
    return "; ".join(parts)


def _at_cost(rows: Sequence[Row]) -> list[tuple[list[Row], list[AtEqualCost]]]:
    """The rows of each architecture, with those that can be compared at equal cost, the lowest FID first."""
    at_cost = equal_costs(rows)
    return [(members, comparable(at_cost, members)) for members in by_architecture(rows)]


def _noun(rows: Sequence[Row]) -> str:
    """What the rows that are compared with dense are."""
    compared = [row.first for row in rows if not row.is_dense]
    return _ROUTED if all(map(requested.is_plain_routing, compared)) else "row other than dense"


def scope(rows: Sequence[Row]) -> str:
    """Return what the statements compare, and what they do not."""
    what = what_differs(rows)
    params = list(filter(None, (members[0].cost("params") for members in by_architecture(rows))))
    sizes = f" ({millions(min(params))} to {millions(max(params))})" if params else ""
    why = f"they differ in parameters{sizes}, and " if what == "architecture" else ""
    losses = " Their validation losses are different quantities." if what == "objective" else ""
    reference = "dense row" if are_beside_dense(rows) else "reference"
    return (
        f"Each {what} is compared with its own {reference}; paired tests are Holm-adjusted over all rows. FIDs of "
        f"different {what}s are not ranked: {why}one training setup need not suit them alike.{losses}"
    )


def statements(rows: Sequence[Row]) -> list[tuple[str, str, str]]:
    """(architecture, its parameters, what routing does to its quality and speed)."""
    found = []
    for members, compared in _at_cost(rows):
        parameters = f"{millions(members[0].cost('params'))} parameters"
        said = _statement(members)
        if compared:
            places = decimals(row.fid.mean for row in members if row.fid)
            said = f"{at_equal_cost(compared[0], compared, places)} At equal iterations, {said}"
        found.append((members[0].architecture, parameters, said))
    return found


def _best(rows: Sequence[Row]) -> Row | None:
    return next(iter(lowest_fids(rows, [row for row, _ in ranked(rows)])), None)


def _statement(rows: list[Row]) -> str:
    best = _best(rows)
    if best is None:
        failed = [record for row in rows for record in row.not_done]
        taught = (
            "that was not trained towards the features that measure it "
            if any(row.is_evaluated_by_teacher for row in rows)
            else ""
        )
        return f"No {_noun(rows)} {taught}has an FID ({plural(len(failed), 'cell')} not finished)."
    routed = [row for row, _ in ranked(rows)]
    several = f"{len(routed)} {_noun(rows).replace('row', 'rows', 1)}"
    which = f", lowest FID of {several}{runners_up(rows, routed)}" if len(routed) > 1 else ""
    quality = against_reference(best, rows, decimals(row.fid.mean for row in rows if row.fid))
    return f"{best.short_label}{which}: {quality}; {_speed(best)}."


def _speed(row: Row) -> str:
    if row.speedup is None:
        return "its speed was not measured"
    ratio, low, high = row.speedup
    evidence = f"{number(low)} to {number(high)}, ideal {number(row.cost('ideal_speedup'))}"
    if low <= 1 <= high:
        return f"its step is not distinguishable from dense in speed ({evidence})"
    return f"its step is {number(ratio)} times as fast ({evidence})"
