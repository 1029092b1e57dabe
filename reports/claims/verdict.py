"""The result of a run in a few sentences: which row is best, how certain that is, and what it costs or saves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from tread_bench.core.config.choices import PLAINLY_DENSE
from tread_bench.core.numbers.power import detectable_difference
from tread_bench.core.numbers.statistics import MeanInterval
from tread_bench.reports.claims.controls import rules_out
from tread_bench.reports.claims.equal_cost import AtEqualCost, equal_costs
from tread_bench.reports.rows import requested
from tread_bench.reports.rows.comparison import Standing, concluded, fids_against_best, lowest_fids, tested
from tread_bench.reports.rows.row import Group, Row
from tread_bench.reports.text.numbers import decimals, number, plural
from tread_bench.reports.text.sentences import say


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What is said of the rows of one group, in sentences; "" where there is nothing to say."""

    group: Group
    at_cost: str = ""  # the best row at equal training MACs and at equal time
    at_iterations: str
    disagreement: str = ""  # the rows of which the two say different things
    cost: str
    to_target: str = ""
    controls: tuple[str, ...] = ()


def answers(rows: Sequence[Row], is_over: bool = True) -> list[Verdict]:
    """Return one for every group of rows that may be ranked together.

    For an unfinished run, what is not known is said to be not known yet.
    """
    at_cost = equal_costs(rows)
    found = []
    for group, members in groupby(rows, lambda row: row.group):
        found.append(_answer(list(members), [one for one in at_cost if one.row.group == group], is_over))
    return found


def _answer(rows: list[Row], at_cost: Sequence[AtEqualCost], is_over: bool) -> Verdict:
    group = rows[0].group
    if not any(row.done for row in rows):
        nothing = "No cell of this comparison has finished, so there is no result yet."
        return Verdict(group=group, at_iterations=nothing, cost=_missing(rows))

    # The row of lowest FID at equal training MACs, relative to its reference, and that at equal iterations.
    compared = comparable(at_cost, rows)
    pays = compared[0] if compared else None
    routed = [row for row, _ in ranked(rows)]
    lowest = lowest_fids(rows, routed)
    best = lowest[0] if lowest else None
    places = decimals(row.fid.mean for row in rows if row.fid)

    # The answer at equal iterations.
    if best is not None:
        at_iterations = _at_iterations(lowest, routed, rows, places, is_alone=pays is None)
    elif pays is not None:
        at_iterations = "At equal iterations nothing can be compared: no row has an FID there."
    else:
        at_iterations = _without_ranks(rows, is_over)

    # What they cost.
    costs = []
    if pays is not None and pays.row is not best:
        costs.append(price_of(pays.row))
    if best is not None:
        costs.append(f"{price_of(best)}{_of_tread(best, routed, rows, places)}")
    return Verdict(
        group=group,
        at_cost=at_equal_cost(pays, compared, places) if pays else "",
        at_iterations=at_iterations,
        disagreement=_disagreement(compared),
        cost=" ".join(costs) or _cheapest(rows, is_over),
        to_target=_to_target(pays) if pays else "",
        controls=rules_out(at_cost, compared, places),
    )


def _at_iterations(
    lowest: Sequence[Row], routed: Sequence[Row], rows: Sequence[Row], places: int, is_alone: bool
) -> str:
    """The sentence on the row of lowest FID at equal iterations, alone or beside an answer at equal cost."""
    return say(
        "verdict",
        "lowest_at_iterations",
        lowest=lowest,
        count=len(routed),
        noun=kind(routed),
        against=against_reference(lowest[0], rows, places, with_power=not is_alone),
        when="" if is_alone else "At equal iterations, ",
        places=places,
    )


def comparable(at_cost: Sequence[AtEqualCost], rows: Sequence[Row]) -> list[AtEqualCost]:
    """Return those of the ranked rows that have an FID at equal training MACs, the lowest beside its reference first.

    None where their costs are equal as they are, so that equal MACs are equal iterations.
    """
    candidates = {id(row) for row in ranked_candidates(rows)}
    found = [(one.at_macs.mean, one) for one in at_cost if one.at_macs and id(one.row) in candidates]
    if not any(one.is_of_its_own for _, one in found):
        return []
    return [one for _, one in sorted(found, key=lambda pair: pair[0])]


def at_equal_cost(one: AtEqualCost, compared: Sequence[AtEqualCost], places: int) -> str:
    """Return the sentence on the row of lowest FID at equal training MACs, relative to its reference."""
    many = plural(len(compared), kind([other.row for other in compared])) if len(compared) > 1 else ""
    is_relative = len({other.reference.short_label for other in compared}) > 1
    claim = concluded(one.at_macs, one.at_macs_p)
    return say("verdict", "at_equal_cost", one=one, many=many, is_relative=is_relative, claim=claim, places=places)


def _smallest_at_iterations(row: Row, rows: Sequence[Row]) -> float | None:
    """The smallest difference from its reference at equal iterations that the seeds could find, among so many tests."""
    if row.fid_p_value is None:
        return None
    own, reference = row.scores["fid"], row.references["fid"]
    tests = sum(other.fid_p_value is not None for other in rows)
    return detectable_difference([own[seed] - reference[seed] for seed in own if seed in reference], tests)


def _disagreement(compared: Sequence[AtEqualCost]) -> str:
    """The rows of which the answer at equal cost and that at equal iterations are not the same."""
    by_claims: dict[tuple[str, str], list[str]] = {}
    for one in compared:
        name = one.reference.short_label
        said = {"better": f"better than {name}", "worse": f"worse than {name}"}
        outcomes = concluded(one.at_macs, one.at_macs_p), outcome(one.row)
        at_cost, at_iterations = (said.get(outcome, "not significantly different") for outcome in outcomes)
        if "unknown" not in outcomes and at_cost != at_iterations:
            by_claims.setdefault((at_cost, at_iterations), []).append(one.row.short_label)
    claims_of_rows = [(labels, *claims) for claims, labels in by_claims.items()]
    return say("verdict", "disagreement", claims=claims_of_rows) if claims_of_rows else ""


def _to_target(one: AtEqualCost) -> str:
    """What it took to come down to the fitted FID at the reference's end."""
    return say("verdict", "to_target", one=one) if one.macs_to_target else ""


def ranked(rows: Sequence[Row]) -> list[tuple[Row, MeanInterval]]:
    """Return the rows that may be ranked by FID, with it: neither the reference nor controls."""
    return [(row, fid) for row in ranked_candidates([row for row in rows if row.fid]) if (fid := row.fid)]


def ranked_candidates(rows: Sequence[Row]) -> list[Row]:
    """Return the rows that are ranked: not the reference, nor dense controls among other methods, nor a taught one."""
    found = [row for row in rows if not row.is_dense and not requested.is_control(row.first)]
    found = [row for row in found if not row.is_evaluated_by_teacher]
    found = [row for row in found if requested.method(row.first) != PLAINLY_DENSE.name] or found

    # Among nothing but routes, skipping layers is a control.
    others = [row for row in found if not requested.skips_layers(row.first)]
    return others if others and all(requested.is_routing_alone(row.first) for row in others) else found


def kind(rows: Sequence[Row]) -> str:
    """Return what these rows, without dense, compare: methods, rates of a route, routes, or just rows."""
    methods = [requested.method(row.first) for row in rows]
    if len(set(methods)) == len(methods):
        return "method"
    routes = {row.first.routes for row in rows}
    if len(routes) < len(rows) or not all(requested.is_routing_alone(row.first) for row in rows):
        return "row"
    return "route" if len({tuple(row.spans) for row in rows}) > 1 or len(rows) == 1 else "rate"


def _missing(rows: list[Row]) -> str:
    failed = sum(r.status == "failed" for row in rows for r in row.not_done)
    skipped = sum(len(row.not_done) for row in rows) - failed
    return say("verdict", "missing", failed=failed, skipped=skipped)


def _without_ranks(rows: list[Row], is_over: bool) -> str:
    return say(
        "verdict",
        "without_ranks",
        has_fid=any(row.fid for row in rows),
        has_taught=any(row.is_evaluated_by_teacher for row in rows),
        has_controls=any(row.fid and requested.is_control(row.first) for row in rows),
        is_over=is_over,
    )


def _cheapest(rows: list[Row], is_over: bool) -> str:
    others = [row for row in rows if not row.is_dense and not requested.is_control(row.first)]
    counted = [row for row in others if row.cost("forward_macs")]
    if not counted:
        return say("verdict", "cost_unknown", is_over=is_over)
    return price_of(min(counted, key=lambda row: row.cost("forward_macs") or 0))


def smallest_difference(rows: Sequence[Row]) -> str:
    """Return how far above the lowest FID of its group a row must be to be detected with these seeds; "" if not
    compared.
    """
    found = fids_against_best(rows)
    if len(found.names) < 2:
        return ""
    if found.smallest is None:
        return "none of any size"
    if not found.is_relative:
        return f"{found.smallest:.2g} FID"
    if found.smallest >= 1:
        return f"more than that FID itself, at {number(1 + found.smallest, 1)} times the lowest"
    return f"{100 * found.smallest:.2g} %"


def detectable(sets: Sequence[tuple[str, Sequence[Row]]]) -> str:
    """Return what the seeds of each named set of rows could have detected, in a sentence; "" where nothing is
    compared.
    """
    differences = [(name, smallest_difference(rows)) for name, rows in sets]
    found = [(name, difference) for name, difference in differences if difference]
    return say("verdict", "detectable", differences=found) if found else ""


def outcome(row: Row) -> Standing:
    """Return what can be concluded about a row's FID against its reference."""
    return concluded(row.difference("fid"), row.fid_p_value)


def against_reference(row: Row, rows: Sequence[Row], places: int, with_power: bool = False) -> str:
    """Return the row's FID compared with its reference, as the end of a sentence.

    Args:
        rows: of its group, or more.
        with_power: say what these seeds could find.
    """
    return say(
        "verdict",
        "against_reference",
        row=row,
        is_there=any(other.done and other.short_label == row.reference_label for other in rows),
        claim=outcome(row),
        smallest=_smallest_at_iterations(row, rows) if with_power else None,
        places=places,
    )


def _of_tread(best: Row, routed: Sequence[Row], rows: Sequence[Row], places: int) -> str:
    """TREAD compared with dense and the other methods, where one of these has the lowest FID."""
    own = next((row for row in routed if requested.is_routing_alone(row.first)), None)
    if own is None or own is best or kind(routed) != "method":
        return ""

    # Those of the other methods that differ from it, by paired tests.
    others = [row for row in routed if row is not own and row is not best]
    tests = tested((row.scores["fid"], own.scores["fid"]) for row in others)
    standings = [(row.short_label, test.standing) for row, test in zip(others, tests, strict=True)]
    return " " + say(
        "verdict",
        "of_tread",
        own=own,
        against=against_reference(own, rows, places),
        others=[row.short_label for row in others],
        higher=[label for label, standing in standings if standing == "worse"],
        lower=[label for label, standing in standings if standing == "better"],
    )


def price_of(row: Row) -> str:
    """Return what a row costs or saves in a sentence: MACs, parameters and the time of a training step.

    For a row that only evaluates, it is what a sample costs.
    """
    if requested.is_evaluated_only(row.first):
        return say("verdict", "price_of_sampling", row=row)
    return say("verdict", "price", row=row)
