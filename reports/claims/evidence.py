"""What the rows of a run give a decision: FIDs at equal cost, of routes, their reference and the controls."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, groupby

from tread_bench.core.stored.records import paired_seed
from tread_bench.reports.claims.break_even import is_about_speed
from tread_bench.reports.claims.controls import beside, instead_of_routing
from tread_bench.reports.claims.decision import Candidate, Decision, Learning, Sides, decide
from tread_bench.reports.claims.equal_cost import AtEqualCost, equal_costs
from tread_bench.reports.claims.guidance import is_swept
from tread_bench.reports.claims.verdict import ranked_candidates
from tread_bench.reports.rows import requested
from tread_bench.reports.rows.architectures import side_by_side
from tread_bench.reports.rows.row import Row


def decisions(rows: Sequence[Row]) -> list[tuple[list[Row], Decision]]:
    """Return a decision for each group of rows that are ranked together, if routes are among them.

    All decisions of a run share the level. Rows of a smoke run have none, nor do rows that only evaluate, a study of
    guidance and one of speed alone, whose question is another.

    Args:
        rows: the comparison of a run.
    """
    found = [*chain.from_iterable(_evidence(members) for members in side_by_side(rows))]
    tested = sum(bool(candidates) for _, candidates in found)
    return [(of_group, decide(candidates, tested)) for of_group, candidates in found]


def _evidence(rows: Sequence[Row]) -> list[tuple[list[Row], list[Candidate]]]:
    """For each group of these rows that is to be decided on: its rows, and what was compared."""
    if is_swept(rows) or is_about_speed(rows):
        return []
    at_cost = equal_costs(rows)
    found = []
    for group, members in groupby(rows, lambda row: row.group):
        of_group = list(members)
        routes = [row for row in ranked_candidates(of_group) if row.spans]
        is_trained = any(not requested.is_evaluated_only(row.first) for row in of_group)
        if routes and is_trained and not any(row.is_smoke for row in of_group):
            compared = [one for one in at_cost if one.row.group == group]
            found.append((of_group, _candidates(compared, {id(row) for row in routes})))
    return found


def _candidates(at_cost: Sequence[AtEqualCost], routes: set[int]) -> list[Candidate]:
    """The routes of a group that were compared at equal MACs."""
    compared = [one for one in at_cost if one.at_macs and id(one.row) in routes]
    controls = [one for one in at_cost if one.at_macs and instead_of_routing(one) and id(one.row) not in routes]
    return [_candidate(one, compared, controls) for one in compared]


def _candidate(one: AtEqualCost, routes: Sequence[AtEqualCost], controls: Sequence[AtEqualCost]) -> Candidate:
    of_same_cost: dict[str, Sides] = {}
    for control in controls:
        if any(route is one for route in beside(control, routes)):
            of_same_cost[control.row.short_label] = (one.fids_at_macs, control.fids_at_macs)
    return Candidate(
        name=one.row.short_label,
        reference=one.reference.short_label,
        at_macs=(one.fids_at_macs, one.references_at_macs),
        at_times=one.fids_at_times,
        controls=of_same_cost,
        learning=_learning(one.reference),
    )


def _learning(reference: Row) -> Learning | None:
    """None where it was evaluated once, or began with trained weights, which need not become better."""
    fids: dict[int, dict[int, float]] = {}
    for record in reference.done:
        for one in record.evaluations:
            if one.fid is not None and (one.protocol or "") == reference.group.protocol:
                fids.setdefault(one.iteration, {})[paired_seed(record)] = one.fid
    if len(fids) < 2 or reference.group.start:
        return None
    first, last = min(fids), max(fids)
    return Learning(iterations=(first, last), first=fids[first], last=fids[last])
