"""A decision as people and programs read it: a sentence, a strip of its tests, what to do next, a document, a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tread_bench.core.describe.routes import parse_routes
from tread_bench.core.numbers.statistics import MeanInterval
from tread_bench.reports import requested
from tread_bench.reports.decision import MOST_SEEDS, QUESTIONS, Choice, Decision, Outcome
from tread_bench.reports.questions import tuning
from tread_bench.reports.row import Row, by_architecture, told_apart
from tread_bench.reports.tables import Entry, Table, estimate_entry
from tread_bench.reports.text.numbers import DASH, MINUS, decimals, fid_difference, millions, names, number, plural

_SIGNS = {Outcome.HOLDS: "✓", Outcome.FAILS: "✗", Outcome.INCONCLUSIVE: "?", Outcome.UNTESTED: DASH}
_ANSWERS = {
    Outcome.HOLDS: "yes",
    Outcome.FAILS: "no",
    Outcome.INCONCLUSIVE: "not certain",
    Outcome.UNTESTED: "not tested",
}
_NOTHING = MeanInterval(0.0, None, None, 0)
Decided = tuple[Sequence[Row], Decision]  # the rows of a comparison, and what they decide


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
    said = _sentence(decision)
    return said if is_over else f"So far: {said}"


def _sentence(decision: Decision) -> str:
    route, seeds = decision.route, decision.seeds
    at_macs, at_time, against_control = decision.tests
    reference, control = at_macs.other, against_control.other
    is_slower = at_time.outcome is Outcome.FAILS
    here = start = ""
    if decision.regime:
        here = f"with {decision.regime}, "
        start = f"Here, {here}"

    # What the tests lead to.
    match decision.choice:
        case Choice.ROUTE:
            better = f"{here}{route} is better than {reference}"
            return f"Route it: {better} at equal MACs and equal time, and than every control."
        case Choice.TIME_OPEN:
            better = f"{start}{route} is better than {reference} and every control at equal MACs"
            return f"{better}; at equal time this is not certain."
        case Choice.CONTROL_OPEN:
            better = f"{start}{route} is better than {reference} at equal MACs"
            return f"{better}, but not shown to be better than the control {control}."
        case Choice.CONTROLS_MISSING:
            return f"{start}{route} is better than {reference} at equal MACs; no control of the same cost was tested."
        case Choice.MACS_NOT_TIME:
            return f"Do not route: {here}{route} saves MACs, but at equal time on this machine {reference} is better."
        case Choice.CONTROL_BETTER:
            return f"Do not route: {here}at the same MACs the control {control} has a lower FID than every route."
        case Choice.WORSE:
            what = "its reference" if decision.has_several_references else reference
            return f"Do not route: {here}every route is worse than {what} at equal training MACs."
        case Choice.UNTESTED:
            return "No decision: no route was compared with dense at equal training MACs."
        case Choice.NOT_TRAINED if decision.learning:
            (first, last), fids = decision.learning.iterations, decision.learning.means
            fell = f"{reference} has FID {fids[0]:.3g} at iteration {first:,} and {fids[1]:.3g} at {last:,}"
            return f"Not trained yet: {here}{fell}, no fall beyond chance. Train longer."

    # Undecided: what more seeds would probably settle.
    if decision.finds is None or at_macs.difference is None:
        return f"Undecided: {here}one seed has no interval. Run at least five."
    now = at_macs.difference.n
    if is_slower:
        open_still = f"{now} seeds do not settle it at equal MACs, {seeds} probably would"
        if seeds is None:
            open_still = f"{MOST_SEEDS} seeds would rarely settle it at equal MACs"
        return f"Undecided: {here}{open_still}; at equal time {reference} is better."
    settle = f"{seeds or MOST_SEEDS} seeds would {'probably' if seeds else 'rarely'} settle it"
    finds = f"{at_macs.difference.mean:+.3g}".replace("-", MINUS)
    return f"Undecided: {here}{route}'s {finds} FID at equal MACs is within the noise of {now} seeds; {settle}."


def overview(made: Mapping[str, Decision], is_over: bool = True) -> str:
    """Return how often decisions were made one way, by the name of each; `is_over`: no cell of the run is missing."""
    favoured = [name for name, decision in made.items() if decision.choice.is_for_routing]
    undecided = [name for name, decision in made.items() if decision.choice is Choice.UNDECIDED]
    untrained = [name for name, decision in made.items() if decision.choice is Choice.NOT_TRAINED]
    against = [name for name in made if name not in (*favoured, *undecided, *untrained)]
    of_all = f"of {len(made)} comparisons"
    said = []
    if favoured:
        better = "A route is better than dense at equal MACs, and nothing tested is better than it"
        said.append(f"{better}, in {len(favoured)} {of_all}: {names(favoured)}.")
    if against:
        said.append(f"Do not route in {len(against)} {of_all}: {names(against)}.")
    for which, what, then in ((undecided, "Undecided", ""), (untrained, "Not trained yet", ": train longer")):
        if which:
            where = f"all {len(made)} comparisons" if len(which) == len(made) else f"{len(which)} {of_all}"
            said.append(f"{what} in {where}{then}.")
    return f"{'' if is_over else 'So far: '}{' '.join(said)}"


def next_step(decision: Decision, rows: Sequence[Row], may_add_seeds: bool = True) -> tuple[str, str] | None:
    """Return what would tell most after a decision, and what the run's command takes for it; None: nothing.

    Args:
        rows: of the comparison.
        may_add_seeds: False where the study stated after how many seeds it stops.
    """
    first = rows[0].first
    iterations, depth = requested.iterations(first), first.config.get("backbone", {}).get("depth")
    match decision.choice:
        case Choice.NOT_TRAINED:
            return "Train longer", f"--set training.iterations={4 * iterations} --out FOLDER"
        case Choice.UNDECIDED if may_add_seeds and (decision.seeds or decision.finds is None):
            return "Add seeds to this run", f"--set seeds={decision.seeds or 5}"
        case choice if choice.is_for_routing and depth:
            return "Ask it of a larger network", f"--set backbone.depth={2 * depth} --out FOLDER"
    return None


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
        found, evidence = test.difference, ""
        if found:
            chance = ", not beyond chance among so many comparisons" if test.is_within_chance else ""
            evidence = f"{fid_difference(found, places)}, {plural(found.n, 'seed')}{chance}"
        question = f"Is {decision.route} better than {decision.tests[0].other or 'dense'} at {test.question}?"
        if test.question == QUESTIONS[2]:
            control = f"the control {test.other}" if test.other else "a control of equal MACs"
            question = f"Is {decision.route} better than {control}?"
        shown = found or _NOTHING
        marks.append(
            Mark(
                sign=_SIGNS[test.outcome], outcome=str(test.outcome), question=question,
                answer=_ANSWERS[test.outcome], evidence=evidence, zero=place(0.0),
                mean=place(found.mean) if found else None, low=place(shown.low), high=place(shown.high),
            )
        )  # fmt: skip
    return marks


def legend(decision: Decision, route: Row) -> str:
    """Return what a reader must know of one decision: the route, its reference, a control."""
    name = decision.route
    if requested.is_plain_routing(route.first):
        each = []
        for one in parse_routes(route.first.routes):
            where = f"block {one.start}" if one.start == one.end else f"blocks {one.start} to {one.end}"
            each.append(f"{100 * one.rate:.3g} % of the tokens skip {where}")
        said = f"In the training of {name}, {names(each)}; the network has blocks 0 to {route.blocks - 1}."
    else:
        said = f"{name} is trained with {requested.method(route.first)}."
    controls = ", and with controls: other ways to spend as much" if decision.tests[2].other else ""
    return f"{said} It is compared with {decision.tests[0].other}, the training without this route{controls}."


def reading(decision: Decision) -> str:
    """Return how the tests of any decision of its run are read: FID, MACs and intervals."""
    shared = ""
    if decision.side_by_side > 1:
        shared = f" and for the {decision.side_by_side} decisions of this run"
    return (
        "FID rates generated images: lower is better, so a difference below 0 is in favour of the route. MACs count "
        "the arithmetic of training. Intervals are those at 95 %, as in pictures and tables, where nothing is tested. "
        f"A test asks for more: it allows for the choice of the best row{shared}."
    )


def certainty(decision: Decision, places: int) -> str:
    """Return what the seeds of a decision could have found, in a sentence."""
    at_macs = decision.tests[0]
    if decision.choice is Choice.NOT_TRAINED:
        return "Nothing is certain of networks that have not learnt."
    if decision.detectable is None or at_macs.difference is None:
        return "One seed has no interval, so nothing is certain."
    return (
        f"A true difference from {at_macs.other} of {number(decision.detectable, places)} FID at equal MACs is found "
        f"in 80 % of runs with {at_macs.difference.n} seeds; where there is none, at most 5 % of runs find one."
    )


def certainties(made: Mapping[str, Decision], places: int) -> str:
    """Return what the seeds of several decisions could have found, in a sentence; by the architecture of each."""
    found = []
    for name, decision in made.items():
        if decision.detectable is not None and decision.choice is not Choice.NOT_TRAINED:
            found.append(f"{number(decision.detectable, places)} ({name})")
    if not found:
        return "One seed has no interval, so nothing is known of what it could find."
    return (
        "The true differences from dense at equal MACs that these seeds find in 80 % of runs, in FID: "
        f"{', '.join(found)}; where there are none, at most 5 % of runs find any."
    )


def regime(rows: Sequence[Row]) -> str:
    """Return on what a comparison was made: data, size of the network, length of training."""
    first = rows[0]
    sizes = [*filter(None, (members[0].cost("params") for members in by_architecture(rows)))]
    span = list(dict.fromkeys(millions(size) for size in (min(sizes, default=None), max(sizes, default=None))))
    batch = requested.training(first.first, "batch")
    start = f" from the weights of {first.group.start}" if first.group.start else ""
    length = f"{first.group.iteration:,} iterations of {batch} images{start}"
    return f"{requested.data(first.first)}, {' to '.join(span)} parameters, {length}"


def scope(rows: Sequence[Row]) -> str:
    """Return on what a comparison was made, and that it says nothing of anything else."""
    last = rows[0].first.last
    details = last.protocol_details if last else {}
    judged = ""
    if "feature_network" in details:
        judged = f", FID of {details.get('num_samples', 0):,} samples by {details['feature_network']}"
    return f"{regime(rows)}{judged}: these figures say nothing about other data, sizes or lengths of training."


def documents(made: Sequence[Decided], is_over: bool = True) -> list[dict[str, Any]]:
    """Return the decision of each comparison of routes, as JSON has it; FID differences have no other unit."""
    called = told_apart([members[0].group for members, _ in made])
    found = []
    for name, (members, decision) in zip(called, made, strict=True):
        # Its tests, then the decision itself.
        tests = []
        for test in decision.tests:
            shown = test.difference or _NOTHING
            line = {
                "question": test.question,
                "outcome": str(test.outcome),
                "against": test.other,
                "difference_fid": shown.mean if test.difference else None,
                "low_fid": shown.low,
                "high_fid": shown.high,
                "seeds": shown.n,
            }
            tests.append(line)
        document = {
            "backbone": members[0].group.backbone,
            "protocol": members[0].group.protocol,
            "sentence": sentence(decision, is_over),
            "choice": str(decision.choice),
            "route": decision.route,
            "tests": tests,
            "seeds_to_decide": decision.seeds,
            "difference_found_fid": decision.finds,
            "detectable_fid": decision.detectable,
            "learning_rate": tuning.summary(members),
            "name": name,
        }
        found.append(document)
    return found


def as_table(title: str, decisions: Sequence[Decision]) -> Table:
    """Return the tests of several decisions, to publish."""
    lines = []
    for decision in decisions:
        places = decimals(test.difference.mean for test in decision.tests if test.difference)
        for test in decision.tests:
            difference = estimate_entry(test.difference, places, signed=True)
            lines.append([Entry(decision.route), Entry(test.question), Entry(str(test.outcome)), difference])
    return Table("decision", title, ("Route", "Claim", "Outcome", "Δ FID"), lines)
