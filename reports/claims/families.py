"""What a run of several architectures or objectives says: of each against its own dense row, and no ranking of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tread_bench.reports.claims.equal_cost import AtEqualCost, equal_costs
from tread_bench.reports.claims.verdict import against_reference, at_equal_cost, comparable, kind, outcome, ranked
from tread_bench.reports.rows import requested
from tread_bench.reports.rows.architectures import by_architecture, what_differs
from tread_bench.reports.rows.comparison import Standing, are_beside_dense, concluded, lowest_fids
from tread_bench.reports.rows.row import Row
from tread_bench.reports.text.numbers import decimals, millions
from tread_bench.reports.text.sentences import say

_ALIKE: dict[Standing, str] = {"not beyond chance": "open"}  # said in the same words
_ORDER = ("better", "open", "worse", "unknown")
_ROUTED = "routed row"


def summary(rows: Sequence[Row]) -> str:
    """Over all architectures: where the best routed row gains, loses, or does not differ from its reference.

    First at equal training MACs, where that is known of some, then at equal iterations.
    """
    # The outcome of each architecture's best row.
    architectures = by_architecture(rows)
    at_iterations: dict[str, Standing] = {}
    for members in architectures:
        lowest = _lowest(members)
        at_iterations[members[0].architecture] = outcome(lowest[0]) if lowest else "unknown"
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
    said = _where(at_cost, rows) if at_cost else ""
    return say("families", "summary", what=what, at_cost=said, at_iterations=_where(at_iterations, rows))


def _where(outcomes: Mapping[str, Standing], rows: Sequence[Row]) -> str:
    """Such as "better than dense training in DiT; worse than dense in ZigMa"."""
    found: dict[str, list[str]] = {}
    for claim in _ORDER:
        alike = [name for name, outcome in outcomes.items() if _ALIKE.get(outcome, outcome) == claim]
        if alike:
            found[claim] = alike
    within = "under" if what_differs(rows) == "objective" else "in"
    training, reference = ("dense training", "dense") if are_beside_dense(rows) else ("its reference", "its reference")
    return say("families", "where", found=found, within=within, training=training, reference=reference)


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
    sizes = list(filter(None, (members[0].cost("params") for members in by_architecture(rows))))
    reference = "dense row" if are_beside_dense(rows) else "reference"
    return say("families", "scope", what=what_differs(rows), sizes=sizes, reference=reference)


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


def _lowest(rows: Sequence[Row]) -> list[Row]:
    """The row of lowest FID that is neither reference nor control, and those not distinguishable from it."""
    return lowest_fids(rows, [row for row, _ in ranked(rows)])


def _statement(rows: list[Row]) -> str:
    lowest = _lowest(rows)
    if not lowest:
        return say(
            "families",
            "without_best",
            noun=_noun(rows),
            was_taught=any(row.is_evaluated_by_teacher for row in rows),
            not_finished=sum(len(row.not_done) for row in rows),
        )
    routed = [row for row, _ in ranked(rows)]
    return say(
        "families",
        "statement",
        lowest=lowest,
        count=len(routed),
        noun=_noun(rows),
        kind=kind(routed),
        quality=against_reference(lowest[0], rows, decimals(row.fid.mean for row in rows if row.fid)),
    )
