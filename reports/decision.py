"""Whether to route: one rule over three tests of FID, each with its estimate, interval and seeds.

The route is the one of lowest FID, relative to its reference (dense), at equal training MACs. Three questions are asked
of it: is it better than dense at equal training MACs, is it better at equal measured time, and is it better than every
control that costs the same MACs? docs/methods/decision.md has the table of decisions, and how often each of them is
wrong.

The choice of the route, and that of the control, are part of the level. With m routes, k controls and level 5 %:

- A test *holds* where the Student-t interval at 5 % / m lies below 0; against controls, each of their intervals. So the
  best of m routes is not called better because it was chosen (Bonferroni), and a route must beat all its controls
  (an intersection-union test, Berger 1982, which needs no further adjustment).
- "Worse than dense" is said where every route is, and "a control does more" where one control is better than every
  route, at 5 % / k.
- Decisions of one run, one for each architecture, objective, data set or length, share the 5 % (Bonferroni): of d, each
  has 5 % / d in place of 5 %.
- At equal time the interval is the hull of three: at the measured speed-up, and at both ends of its own 95 % interval.

None of this is asked of networks that have not learnt: where the FID of the route's reference has not fallen beyond
chance between its first and last evaluation, the decision is "not trained yet".

What is shown of a test is the 95 % interval of its difference, as everywhere on the page.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import chain, groupby
from statistics import mean

from tread_bench.core.config.choices import PLAINLY_DENSE
from tread_bench.core.numbers.statistics import (
    LEVEL,
    MeanInterval,
    Seeds,
    detectable_difference,
    hull,
    log_ratio,
    paired_difference,
    seeds_to_find,
)
from tread_bench.core.stored.records import paired_seed
from tread_bench.reports import requested
from tread_bench.reports.differences import MACS, TIME, Sides
from tread_bench.reports.questions.break_even import is_about_speed
from tread_bench.reports.questions.controls import beside, is_control
from tread_bench.reports.questions.guidance import is_swept
from tread_bench.reports.row import Row

MOST_SEEDS = 100  # that a study is advised to have in all
QUESTIONS = ("equal training MACs", "equal measured time", "control of equal MACs")


class Outcome(StrEnum):
    """What one test says."""

    HOLDS = "holds"
    FAILS = "fails"
    INCONCLUSIVE = "inconclusive"
    UNTESTED = "untested"


class Choice(StrEnum):
    """What a comparison decides."""

    ROUTE = "route"
    TIME_OPEN = "time open"
    CONTROL_OPEN = "control open"
    CONTROLS_MISSING = "controls missing"
    MACS_NOT_TIME = "MACs, not time"
    CONTROL_BETTER = "control better"
    WORSE = "worse than dense"
    UNDECIDED = "undecided"
    NOT_TRAINED = "not trained yet"
    UNTESTED = "untested"

    @property
    def is_for_routing(self) -> bool:
        """Whether the route is worth taking along: it is better at equal MACs, and nothing tested is better than it."""
        return self in (Choice.ROUTE, Choice.TIME_OPEN, Choice.CONTROL_OPEN, Choice.CONTROLS_MISSING)


@dataclass(frozen=True, kw_only=True)
class Learning:
    """FIDs of a reference at two iterations, its first and last evaluation, by seed."""

    iterations: tuple[int, int]
    first: Seeds
    last: Seeds

    @property
    def means(self) -> tuple[float, float]:
        return mean(self.first.values()), mean(self.last.values())

    @property
    def is_missing(self) -> bool:
        """Whether the FID has not fallen beyond chance: the 95 % interval of its mean log ratio is not below 0.

        One seed has no interval; there it is whether the FID has not fallen at all.
        """
        change = log_ratio(self.last, self.first)
        if change is None:
            return False
        return change.mean >= 0 if change.bounds is None else not change.is_below(0)


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A route that was compared with its reference at equal training MACs.

    Args:
        name: of its row.
        reference: the row that it is compared with: dense, or the one that its budget names.
        at_macs: its FIDs and those of its reference at equal training MACs.
        at_times: the same at equal measured time, for its speed-up and for both ends of the speed-up's interval; empty
            where that was not measured.
        controls: its FIDs and those of each control that costs the same MACs, by the control's name.
        learning: of its reference; None where that was evaluated once, or began with trained weights.
    """

    name: str
    reference: str = "dense"
    at_macs: Sides
    at_times: Sequence[Sides] = ()
    controls: Mapping[str, Sides] = field(default_factory=dict)
    learning: Learning | None = None


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One of the three tests.

    Args:
        question: one of `QUESTIONS`.
        other: the row that the route is compared with; "" where there is none.
        difference: FID of the route minus that of the other, with its 95 % interval. The test may ask for more.
    """

    question: str
    outcome: Outcome
    other: str = ""
    difference: MeanInterval | None = None

    @property
    def is_within_chance(self) -> bool:
        """Whether the 95 % interval excludes 0, and the test, which is one of several, is inconclusive."""
        return self.outcome is Outcome.INCONCLUSIVE and (_is_below(self.difference) or _is_above(self.difference))


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What a comparison decides, with the tests behind it.

    Args:
        route: the row that was tested; "" where no route was compared.
        tests: at equal training MACs, at equal measured time, and against the best control.
        finds: the difference in FID that `seeds` seeds would find with 80 % power, of the test that is inconclusive.
        seeds: so many in all; None where even `MOST_SEEDS` are too few, or nothing is inconclusive.
        detectable: the smallest true difference in FID at equal training MACs that its seeds find with 80 % power.
        regime: on what it was made, such as "16 tokens and 1,200 iterations".
        side_by_side: how many decisions share the level, itself included.
        has_several_references: whether its routes were compared with different rows.
        learning: of the row that the route is compared with; None where that is not known.
    """

    choice: Choice
    route: str
    tests: tuple[Claim, Claim, Claim]
    regime: str = ""
    finds: float | None = None
    seeds: int | None = None
    detectable: float | None = None
    side_by_side: int = 1
    has_several_references: bool = False
    learning: Learning | None = None


def choice_of(at_macs: Outcome, at_time: Outcome, control: Outcome) -> Choice:
    """Return the one decision that three outcomes lead to."""
    match at_macs, at_time, control:
        case Outcome.UNTESTED, _, _:
            return Choice.UNTESTED
        case Outcome.FAILS, _, _:
            return Choice.WORSE
        case _, _, Outcome.FAILS:
            return Choice.CONTROL_BETTER
        case Outcome.INCONCLUSIVE, _, _:
            return Choice.UNDECIDED
        case _, Outcome.FAILS, _:
            return Choice.MACS_NOT_TIME
        case _, _, Outcome.UNTESTED:
            return Choice.CONTROLS_MISSING
        case _, _, Outcome.INCONCLUSIVE:
            return Choice.CONTROL_OPEN
        case _, Outcome.HOLDS, _:
            return Choice.ROUTE
        case _:
            return Choice.TIME_OPEN


def decide(candidates: Sequence[Candidate], side_by_side: int = 1) -> Decision:
    """Return the decision on routes, each compared with its reference; `UNTESTED` without any.

    Args:
        side_by_side: how many decisions of a run are made together. In at most 5 % of runs, any of them is wrong.
    """
    compared = [one for one in candidates if paired_difference(*one.at_macs)]
    if not compared:
        nothing = [Claim(question=question, outcome=Outcome.UNTESTED) for question in QUESTIONS]
        return Decision(choice=Choice.UNTESTED, route="", tests=(nothing[0], nothing[1], nothing[2]))

    # The three tests of the route of lowest FID, relative to its reference.
    best = min(compared, key=lambda one: _mean(one.at_macs))
    whole = LEVEL / side_by_side
    level = whole / len(compared)
    tests = (
        _at_macs(best, compared, level, whole),
        _at_time(best, level),
        _against_controls(best, compared, level, whole),
    )

    # The decision, and what would decide further.
    is_trained = best.learning is None or not best.learning.is_missing
    choice = choice_of(*(test.outcome for test in tests)) if is_trained else Choice.NOT_TRAINED
    own, others = best.at_macs
    differences = [own[seed] - others[seed] for seed in own if seed in others]
    detectable = detectable_difference(differences, side_by_side * len(compared))
    finds, seeds = _seeds_to_decide(best.at_macs, level) if choice is Choice.UNDECIDED else (None, None)
    return Decision(
        choice=choice, route=best.name, tests=tests, finds=finds, seeds=seeds, detectable=detectable,
        side_by_side=side_by_side, has_several_references=len({one.reference for one in compared}) > 1,
        learning=best.learning,
    )  # fmt: skip


def _at_macs(best: Candidate, compared: Sequence[Candidate], level: float, whole: float) -> Claim:
    difference = _difference(best.at_macs, level)
    every_route_is_worse = all(_is_above(_difference(one.at_macs, whole)) for one in compared)
    outcome = _outcome(difference, fails=_is_above(difference) and every_route_is_worse)
    return Claim(question=QUESTIONS[0], outcome=outcome, other=best.reference, difference=_difference(best.at_macs))


def _at_time(best: Candidate, level: float) -> Claim:
    difference = hull([_difference(sides, level) for sides in best.at_times])
    if difference is None:
        return Claim(question=QUESTIONS[1], outcome=Outcome.UNTESTED)
    outcome = _outcome(difference, fails=_is_above(difference))
    shown = hull([_difference(sides) for sides in best.at_times])
    return Claim(question=QUESTIONS[1], outcome=outcome, other=best.reference, difference=shown)


def _against_controls(best: Candidate, compared: Sequence[Candidate], level: float, whole: float) -> Claim:
    beside = {name: sides for name, sides in best.controls.items() if paired_difference(*sides)}
    if not beside:
        return Claim(question=QUESTIONS[2], outcome=Outcome.UNTESTED)

    # The control that leaves least of the route's advantage, and what is claimed of it.
    strictest = min(level, whole / len(beside))
    name = max(beside, key=lambda other: _mean(beside[other]))
    difference = _difference(beside[name], strictest)
    beats_all = all(_is_below(_difference(sides, level)) for sides in beside.values())
    routes_beside = [one.controls[name] for one in compared if name in one.controls]
    beats_no_route = all(_is_above(_difference(sides, strictest)) for sides in routes_beside)

    outcome = Outcome.INCONCLUSIVE
    if beats_all and _is_below(difference):
        outcome = Outcome.HOLDS
    elif beats_no_route and len(routes_beside) == len(compared):
        outcome = Outcome.FAILS
    return Claim(question=QUESTIONS[2], outcome=outcome, other=name, difference=_difference(beside[name]))


def _outcome(difference: MeanInterval | None, fails: bool) -> Outcome:
    if _is_below(difference):
        return Outcome.HOLDS
    return Outcome.FAILS if fails else Outcome.INCONCLUSIVE


def _difference(sides: Sides, level: float = LEVEL) -> MeanInterval | None:
    return paired_difference(*sides, confidence=1 - level)


def _mean(sides: Sides) -> float:
    difference = paired_difference(*sides)
    assert difference is not None, "it was compared"
    return difference.mean


def _is_below(difference: MeanInterval | None) -> bool:
    return difference is not None and difference.is_below(0)


def _is_above(difference: MeanInterval | None) -> bool:
    return difference is not None and difference.is_above(0)


def _seeds_to_decide(sides: Sides, level: float) -> tuple[float | None, int | None]:
    """The difference that was measured, and how many seeds would find it with 80 % power if it is the true one."""
    difference = paired_difference(*sides)
    if difference is None or difference.spread is None or not difference.mean:
        return None, None
    size = abs(difference.mean)
    return size, seeds_to_find(size / difference.spread, MOST_SEEDS, level) if difference.spread else None


# What the rows of a run give a decision


def decisions(sets: Sequence[Sequence[Row]]) -> list[tuple[list[Row], Decision]]:
    """Return a decision for each group of rows that are ranked together, if routes are among them.

    All decisions of a run share the level. Rows of a smoke run have none, nor do rows that only evaluate, a study of
    guidance and one of speed alone, whose question is another.

    Args:
        sets: of rows that stand side by side.
    """
    found = [*chain.from_iterable(map(_candidates_of, sets))]
    tested = sum(bool(candidates) for _, candidates in found)
    made = []
    for of_group, candidates in found:
        tokens = of_group[0].cost("image_tokens")  # of dense, which comes first
        length = f"{of_group[0].group.iteration:,} iterations"
        regime = f"{tokens:.0f} tokens and {length}" if tokens else length
        made.append((of_group, replace(decide(candidates, tested), regime=regime)))
    return made


def _candidates_of(rows: Sequence[Row]) -> list[tuple[list[Row], list[Candidate]]]:
    """For each group of these rows that is to be decided on: its rows, and its routes compared at equal MACs."""
    if is_swept(rows) or is_about_speed(rows) or any(row.is_smoke for row in rows):
        return []
    found = []
    for _, members in groupby(rows, lambda row: row.group):
        of_group = list(members)
        routes = [row for row in ranked_candidates(of_group) if row.spans]
        is_trained = any(not requested.is_evaluated_only(row.first) for row in of_group)
        if routes and is_trained:
            at_macs = [row for row in routes if row.compared(MACS)]
            controls = [row for row in of_group if is_control(row) and row not in routes and row.compared(MACS)]
            references = {row.name: row for row in of_group}
            candidates = [_candidate(row, at_macs, controls, references) for row in at_macs]
            found.append((of_group, candidates))
    return found


def ranked_candidates(rows: Sequence[Row]) -> list[Row]:
    """Return the rows that are ranked: not the reference, nor dense controls among other methods, nor a taught one."""
    found = [row for row in rows if not row.is_dense and not requested.is_control(row.first)]
    found = [row for row in found if not row.is_evaluated_by_teacher]
    found = [row for row in found if requested.method(row.first) != PLAINLY_DENSE.name] or found

    # Among nothing but routes, skipping layers is a control.
    others = [row for row in found if not requested.skips_layers(row.first)]
    return others if others and all(requested.is_routing_alone(row.first) for row in others) else found


def _candidate(row: Row, routes: Sequence[Row], controls: Sequence[Row], references: Mapping[str, Row]) -> Candidate:
    own, other = row.sides(MACS)[0]
    of_same_cost: dict[str, Sides] = {}
    for control in controls:
        if row in beside(control, routes):
            of_same_cost[control.short_label] = (own, control.sides(MACS)[0][0])
    at_times = row.sides(TIME)
    reference = references.get(row.reference_name)
    return Candidate(
        name=row.short_label,
        reference=row.reference_label,
        at_macs=(own, other),
        at_times=at_times if len(at_times) == 3 else (),
        controls=of_same_cost,
        learning=_learning(reference) if reference else None,
    )


def _learning(reference: Row) -> Learning | None:
    """None where it was evaluated once, or began with trained weights, which need not become better."""
    fids: dict[int, dict[int, float]] = {}
    for record in reference.done:
        for one in record.evaluations:
            is_known = one.fid is not None and math.isfinite(one.fid)
            if one.fid is not None and is_known and (one.protocol or "") == reference.group.protocol:
                fids.setdefault(one.iteration, {})[paired_seed(record)] = one.fid
    if len(fids) < 2 or reference.group.start:
        return None
    first, last = min(fids), max(fids)
    return Learning(iterations=(first, last), first=fids[first], last=fids[last])
