"""A decision as people and programs read it: one sentence, a strip of its tests, a document, a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tread_bench.core.describe.routes import parse_routes
from tread_bench.reports.claims import tuning
from tread_bench.reports.claims.decision import MOST_SEEDS, Choice, Claim, Decision, Outcome
from tread_bench.reports.claims.evidence import decisions
from tread_bench.reports.rows import requested
from tread_bench.reports.rows.architectures import by_architecture, told_apart
from tread_bench.reports.rows.row import Row
from tread_bench.reports.tables.tables import Entry, Table, estimate_entry
from tread_bench.reports.text.numbers import DASH, decimals
from tread_bench.reports.text.sentences import say

_SIGNS = {Outcome.HOLDS: "✓", Outcome.FAILS: "✗", Outcome.INCONCLUSIVE: "?", Outcome.UNTESTED: DASH}


class Mark(NamedTuple):
    """One test in the strip; positions are in percent of the strip's width, None where there is no figure."""

    sign: str
    outcome: str
    question: str  # such as "Is 2:8 better than dense at equal training MACs?"
    answer: str
    evidence: str
    zero: float | None
    mean: float | None
    low: float | None
    high: float | None


def sentence(decision: Decision, is_over: bool = True) -> str:
    """Return the decision in one sentence; `is_over`: no cell of the run is missing."""
    return say("decision", "sentence", decision=decision, is_over=is_over, most=MOST_SEEDS)


def overview(made: Mapping[str, Decision], is_over: bool = True) -> str:
    """Return how often decisions were made one way, by the name of each; `is_over`: no cell of the run is missing."""
    favoured = [name for name, decision in made.items() if decision.choice.is_for_routing]
    undecided = [name for name, decision in made.items() if decision.choice is Choice.UNDECIDED]
    untrained = [name for name, decision in made.items() if decision.choice is Choice.NOT_TRAINED]
    against = [name for name in made if name not in (*favoured, *undecided, *untrained)]
    return say(
        "decision",
        "overview",
        favoured=favoured,
        against=against,
        undecided=undecided,
        untrained=untrained,
        is_over=is_over,
    )


def strip(decision: Decision, places: int) -> list[Mark]:
    """Return the tests in their order, on one scale that includes 0; `places` are the decimals of an FID."""
    # The scale.
    ends = [0.0]
    for test in decision.tests:
        if test.difference:
            ends += [test.difference.mean, *(test.difference.bounds or ())]
    start = min(ends)
    width = max(ends) - start or 1.0

    def place(value: float | None) -> float | None:
        return None if value is None else round(4 + 92 * (value - start) / width, 2)

    # Each test on it.
    marks = []
    for test in decision.tests:
        found = test.difference
        marks.append(
            Mark(
                sign=_SIGNS[test.outcome],
                outcome=str(test.outcome),
                question=say("strip", "question", question=test.question, route=decision.route, other=test.other),
                answer=say("strip", "answer", outcome=str(test.outcome)),
                evidence=say("strip", "evidence", test=test, places=places),
                zero=place(0.0),
                mean=place(found.mean if found else None),
                low=place(found.low if found else None),
                high=place(found.high if found else None),
            )
        )
    return marks


def legend(decision: Decision, route: Row) -> str:
    """Return what a reader must know of one decision: the route, its reference, a control."""
    is_plain = requested.is_plain_routing(route.first)
    routes = parse_routes(route.first.routes) if is_plain else []
    method = requested.method(route.first)
    return say("strip", "legend", decision=decision, method=method, routes=routes, blocks=route.blocks)


def reading(decision: Decision) -> str:
    """Return how the tests of any decision of its run are read: FID, MACs and intervals."""
    return say("strip", "reading", decision=decision)


def certainty(decision: Decision, places: int, may_add_seeds: bool) -> str:
    """Return what the seeds of a decision could have found, in a sentence, and how to add those that would settle it,
    unless the study stated after how many it stops.
    """
    return say("decision", "certainty", decision=decision, places=places, may_add_seeds=may_add_seeds)


def certainties(decisions: Mapping[str, Decision], places: int) -> str:
    """Return what the seeds of several decisions could have found, in a sentence; by the architecture of each."""
    return say("decision", "certainties", decisions=decisions, places=places)


def scope(rows: Sequence[Row]) -> str:
    """Return on what a comparison was made, and that it says nothing of anything else."""
    first = rows[0]
    sizes = [*filter(None, (members[0].cost("params") for members in by_architecture(rows)))]
    batch = requested.training(first.first, "batch")
    span = (min(sizes, default=None), max(sizes, default=None))
    return say(
        "decision",
        "scope",
        row=first,
        span=span,
        data=requested.data(first.first),
        batch=batch,
        start=requested.start(first.first),
    )


def documents(rows: Sequence[Row], is_over: bool = True) -> list[dict[str, Any]]:
    """Return the decision of each comparison of routes, as JSON has it; FID differences have no other unit."""
    made = decisions(rows)
    names = told_apart([members[0].group for members, _ in made])
    return [
        _document(members, decision, is_over) | {"name": name}
        for name, (members, decision) in zip(names, made, strict=True)
    ]


def _document(rows: Sequence[Row], decision: Decision, is_over: bool) -> dict[str, Any]:
    group = rows[0].group
    return {
        "backbone": group.backbone,
        "protocol": group.protocol,
        "sentence": sentence(decision, is_over),
        "choice": str(decision.choice),
        "route": decision.route,
        "tests": [_test_document(test) for test in decision.tests],
        "seeds_to_decide": decision.seeds,
        "difference_found_fid": decision.finds,
        "detectable_fid": decision.detectable,
        "learning_rate": tuning.in_short(rows),
    }


def _test_document(test: Claim) -> dict[str, Any]:
    found = test.difference
    return {
        "question": test.question,
        "outcome": str(test.outcome),
        "against": test.other,
        "difference_fid": found.mean if found else None,
        "low_fid": found.low if found else None,
        "high_fid": found.high if found else None,
        "seeds": found.n if found else 0,
    }


def as_table(title: str, decisions: Sequence[Decision]) -> Table:
    """Return the tests of several decisions, to publish."""
    lines = []
    for decision in decisions:
        places = decimals(test.difference.mean for test in decision.tests if test.difference)
        for test in decision.tests:
            difference = estimate_entry(test.difference, places, signed=True)
            lines.append([Entry(decision.route), Entry(test.question), Entry(str(test.outcome)), difference])
    return Table("decision", title, ("Route", "Claim", "Outcome", "Δ FID"), lines)
