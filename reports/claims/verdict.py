"""The result of a run in a few sentences: which row is best, how certain that is, and what it costs or saves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from tread_bench.core.config.methods import PLAINLY_DENSE
from tread_bench.core.numbers.power import detectable_difference
from tread_bench.core.numbers.statistics import LEVEL, MeanInterval, paired_difference, paired_p_values
from tread_bench.reports.claims.controls import rules_out
from tread_bench.reports.claims.curves import Reached
from tread_bench.reports.claims.equal_cost import AtEqualCost, equal_costs
from tread_bench.reports.rows import requested
from tread_bench.reports.rows.comparison import Standing, concluded, fids_against_best, lowest_fids
from tread_bench.reports.rows.row import Group, Row
from tread_bench.reports.text.numbers import decimals, interval, names, number, plural, ratio


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

    # The row of lowest FID at equal training MACs, and that at equal iterations.
    compared = comparable(at_cost, rows)
    pays = compared[0] if compared else None
    routed = [row for row, _ in ranked(rows)]
    best = lowest_fids(rows, routed)[0] if routed else None
    places = decimals(row.fid.mean for row in rows if row.fid)

    # The answer at equal iterations.
    if best is not None:
        at_iterations = _at_iterations(best, routed, rows, places, is_alone=pays is None)
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


def _at_iterations(best: Row, routed: Sequence[Row], rows: Sequence[Row], places: int, is_alone: bool) -> str:
    """The sentence on the row of lowest FID at equal iterations, alone or beside an answer at equal cost."""
    when = "" if is_alone else "At equal iterations, "
    against = against_reference(best, rows, places, with_power=not is_alone)
    return f"{_mean(best, routed, places, when)}{runners_up(rows, routed)}; {against}."


def comparable(at_cost: Sequence[AtEqualCost], rows: Sequence[Row]) -> list[AtEqualCost]:
    """Return those of the ranked rows that have an FID at equal training MACs, the lowest first.

    None where their costs are equal as they are, so that equal MACs are equal iterations.
    """
    candidates = {id(row) for row in ranked_candidates(rows)}
    found = [(one.at_macs.mean, one) for one in at_cost if one.at_macs and id(one.row) in candidates]
    if not any(one.is_of_its_own for _, one in found):
        return []
    return [one for _, one in sorted(found, key=lambda pair: pair[0])]


def at_equal_cost(one: AtEqualCost, compared: Sequence[AtEqualCost], places: int) -> str:
    """Return the sentence on the row of lowest FID at equal training MACs."""
    # Which row, of how many, and how it was brought to equal cost.
    how = "" if one.is_trained else " (interpolated between evaluated points)"
    many = plural(len(compared), kind([other.row for other in compared]))
    difference = one.at_macs
    assert difference is not None
    name = one.reference.short_label
    among = f", which has the lowest FID of {many}{_though(difference, name)}," if len(compared) > 1 else ""
    subject = f"At equal training MACs{how}, {one.row.short_label}{among}"

    # Its difference, how certain that is, and what could have been found.
    size = number(abs(difference.mean), places)
    way = "below" if difference.mean < 0 else "above"
    if difference.bounds is None:
        return f"{subject} is {size} FID {way} {name} on the one seed that both have, which is too few to decide."
    pairs = plural(difference.n, "paired seed")
    evidence = f"difference {interval(difference, places, signed=True)}, {pairs}{_power(one.detectable, places)}"
    said = {
        "better": f"is better than {name}, by {size} FID ({evidence})",
        "worse": f"is worse than {name}, by {size} FID ({evidence})",
        "open": f"is not significantly different from {name} ({evidence})",
        "not beyond chance": f"is {size} FID {way} {name} ({evidence}), which is not significant among so many rows "
        "(Holm-adjusted)",
        "unknown": f"is {size} FID {way} {name} ({evidence})",
    }[concluded(difference, one.at_macs_p)]
    return f"{subject} {said}{_at_time(one, places)}."


def _though(difference: MeanInterval | None, reference: str) -> str:
    """That the lowest FID of some rows is not the lowest: on the same seeds that of their reference is lower."""
    return f", though above that of {reference}" if difference and difference.mean > 0 else ""


def _power(smallest: float | None, places: int) -> str:
    return (
        ""
        if smallest is None
        else f"; the smallest difference that these seeds could find is {number(smallest, places)}"
    )


def _smallest_at_iterations(row: Row, rows: Sequence[Row]) -> float | None:
    """The smallest difference from its reference at equal iterations that the seeds could find, among so many tests."""
    if row.fid_p_value is None:
        return None
    own, reference = row.scores["fid"], row.references["fid"]
    tests = sum(other.fid_p_value is not None for other in rows)
    return detectable_difference([own[seed] - reference[seed] for seed in own if seed in reference], tests)


def _at_time(one: AtEqualCost, places: int) -> str:
    """The same at equal measured time, as the end of a sentence."""
    if one.at_time is None:
        return ""
    mean = number(one.at_time.mean, places, signed=True)
    if one.at_time.bounds is None:
        return f"; at equal measured time the difference is {mean}"
    return f"; at equal measured time the difference is {mean} ({interval(one.at_time, places, signed=True)})"


def _disagreement(compared: Sequence[AtEqualCost]) -> str:
    """The rows of which the answer at equal cost and that at equal iterations are not the same."""
    by_claims: dict[tuple[str, str], list[str]] = {}
    for one in compared:
        name = one.reference.short_label
        claims = {"better": f"better than {name}", "worse": f"worse than {name}"}
        outcomes = concluded(one.at_macs, one.at_macs_p), concluded(one.at_iterations, one.at_iterations_p)
        at_cost, at_iterations = (claims.get(outcome, "not significantly different") for outcome in outcomes)
        if "unknown" not in outcomes and at_cost != at_iterations:
            by_claims.setdefault((at_cost, at_iterations), []).append(one.row.short_label)
    if not by_claims:
        return ""
    each = []
    for (at_cost, at_iterations), labels in by_claims.items():
        each.append(f"{names(labels)}: {at_cost} at equal MACs, {at_iterations} at equal iterations")
    return f"The two answers disagree ({'; '.join(each)})."


def _to_target(one: AtEqualCost) -> str:
    """What it took to come down to the fitted FID at the reference's end."""
    found = one.macs_to_target
    if found is None:
        return ""
    row, name = one.row.short_label, one.reference.short_label
    target = f"the FID at {name}’s end"

    # Where at most half of the seeds reached it.
    if not math.isfinite(found.ratio):
        if found.n == 1:
            return f"On one seed, {row} did not come down to {target}, so the cost of reaching it is not known."
        return (
            f"{row} came down to {target} within its training in {found.reached} of {found.n} seeds, so the median "
            "cost of reaching it is not known."
        )

    # The cost, in MACs and in time.
    parts = [_reached(found, f"of {name}’s training MACs")]
    if one.time_to_target:
        parts.append(_reached(one.time_to_target, "of its measured time"))
    took = f"To come down to {target}, {row} took {' and '.join(parts)}"
    if found.n == 1:
        return f"{took}, on one seed."
    few = " (no interval below five seeds)" if found.low is None else ""
    return f"{took}: medians over {found.n} seeds{few}, of which {found.reached} reached it."


def _reached(found: Reached, what: str) -> str:
    """Such as "0.78 (0.70 to not reached) of dense’s training MACs"."""
    bounds = f" ({ratio(found.low)} to {ratio(found.high)})" if found.low and found.high else ""
    return f"{ratio(found.ratio)}{bounds} {what}"


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
    return f"Failed: {plural(failed, 'cell')}; skipped: {plural(skipped, 'cell')}; the reasons are listed below."


def _without_ranks(rows: list[Row], is_over: bool) -> str:
    if not any(row.fid for row in rows):
        return "FID was not measured, so no row can be called best by it."
    if any(row.is_evaluated_by_teacher for row in rows):
        return "No row other than dense is ranked: the network that measures FID was their teacher."
    finished = "finished" if is_over else "has finished yet"
    has_controls = any(row.fid and requested.is_control(row.first) for row in rows)
    known, nothing = ("dense and its controls", "nothing else") if has_controls else ("dense", "nothing")
    return f"No row other than {known} {finished}, so there is {nothing} to compare with dense training."


def _cheapest(rows: list[Row], is_over: bool) -> str:
    others = [row for row in rows if not row.is_dense and not requested.is_control(row.first)]
    counted = [row for row in others if row.cost("forward_macs")]
    if not counted:
        return f"What routing would cost or save is not known from these rows{'' if is_over else ' yet'}."
    return price_of(min(counted, key=lambda row: row.cost("forward_macs") or 0))


def _mean(best: Row, routed: Sequence[Row], places: int, when: str = "") -> str:
    fid = best.fid
    assert fid is not None
    sure = f"95 % interval {interval(fid, places)}, {fid.n} seeds" if fid.n > 1 else "one seed, so no interval"
    if len(routed) == 1:
        return f"{when}{best.short_label} has an FID of {number(fid.mean, places)} ({sure})"
    among = f"{'of' if when else 'Of'} {plural(len(routed), kind(routed))}"
    though = _though(best.difference("fid"), best.reference_label)
    return f"{when}{among}, {best.short_label} has the lowest FID{though}: {number(fid.mean, places)} ({sure})"


def runners_up(rows: Sequence[Row], routed: Sequence[Row]) -> str:
    """Return the rows other than dense that are not distinguishable from the best of them."""
    if len(routed) == 1:
        return ""
    alike = [row.short_label for row in lowest_fids(rows, routed)[1:]]
    if not alike:
        return f", significantly lower than that of every other {kind(routed)}"
    if len(alike) == len(routed) - 1 > 1:
        return f", not distinguishable from any other {kind(routed)}"
    return f", not distinguishable from {names(alike)}"


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
    if not found:
        return ""
    each = [f"{difference} ({name})" if len(found) > 1 else difference for name, difference in found]
    return (
        f"Smallest difference from the lowest FID that these seeds could have detected: {', '.join(each)} (Hsu’s "
        "multiple comparisons with the best on log FID, seeds as blocks, at 5 %)."
    )


def outcome(row: Row) -> Standing:
    """Return what can be concluded about a row's FID against its reference."""
    return concluded(row.difference("fid"), row.fid_p_value)


def against_reference(row: Row, rows: Sequence[Row], places: int, with_power: bool = False) -> str:
    """Return the row's FID compared with its reference, as the end of a sentence.

    Args:
        rows: of its group, or more.
        with_power: say what these seeds could find.
    """
    # Without a pair, or with only one.
    name = row.reference_label
    difference = row.difference("fid")
    if difference is None:
        is_there = any(other.done and other.short_label == name for other in rows)
        why = "no seed has both" if is_there else f"it has no finished {name} row"
        return f"whether that is better or worse than {name} cannot be said, because {why}"
    size = number(abs(difference.mean), places)
    if difference.bounds is None:
        way = "lower" if difference.mean < 0 else "higher"
        return f"it is {size} {way} than {name} on the one seed that both have, which is too few to decide"

    # With several, by the outcome of the test.
    way = "below" if difference.mean < 0 else "above"
    evidence = f"difference {interval(difference, places, signed=True)}, {plural(difference.n, 'paired seed')}"
    if with_power:
        evidence += _power(_smallest_at_iterations(row, rows), places)
    return {
        "worse": f"its quality is worse than {name}, by {size} FID ({evidence})",
        "open": f"it is not significantly different from {name} ({evidence})",
        "better": f"it is better than {name}, by {size} FID ({evidence})",
        "not beyond chance": f"it is {size} {way} {name} ({evidence}), which is not significant among so many "
        "rows (Holm-adjusted)",
    }[outcome(row)]


def _of_tread(best: Row, routed: Sequence[Row], rows: Sequence[Row], places: int) -> str:
    """TREAD compared with dense and the other methods, where one of these has the lowest FID."""
    own = next((row for row in routed if requested.is_routing_alone(row.first)), None)
    if own is None or own is best or kind(routed) != "method":
        return ""
    others = _against(own, [row for row in routed if row is not own and row is not best])
    return f" As for {own.short_label}, {against_reference(own, rows, places)}; {others}{_speed(own)}."


def _against(own: Row, others: Sequence[Row]) -> str:
    """Which of the other rows differ in FID from one, by paired tests."""
    if not others:
        return ""

    # Test each of the others.
    adjusted = paired_p_values((row.scores["fid"], own.scores["fid"]) for row in others)
    different = [row for row, p in zip(others, adjusted, strict=True) if p <= LEVEL]
    if not different:
        return f"none of {names(row.short_label for row in others)} differs significantly from it; "

    # Those above, those below, and the rest.
    clauses = []
    for way in ("higher", "lower"):
        labels = [row.short_label for row in different if _way(row, own) == way]
        if labels:
            clauses.append(f"{names(labels)} {'has' if len(labels) == 1 else 'have'} a {way} FID")
    alike = ", the rest do not differ significantly" if len(different) < len(others) else ""
    return f"{' and '.join(clauses)} (paired tests, Holm-adjusted){alike}; "


def _way(row: Row, own: Row) -> str:
    difference = paired_difference(row.scores["fid"], own.scores["fid"])
    return "lower" if difference and difference.mean < 0 else "higher"


def price_of(row: Row) -> str:
    """Return what a row costs or saves in a sentence: MACs, parameters and the time of a training step."""
    return f"{_macs(row)}{_parameters(row)}, and {_speed(row)}."


def _macs(row: Row) -> str:
    forward = row.cost("forward_macs")
    dense = row.cost("dense_forward_macs")
    if not forward or not dense:
        return f"The MACs of {row.short_label} were not counted"
    when = " of a routed step" if _has_dense_part(row) else ""
    if forward == dense:
        return f"{row.short_label} costs as many forward MACs as dense"
    word = "saves" if forward < dense else "adds"
    share = abs(1 - forward / dense) * 100
    return f"{row.short_label} {word} {share:.0f} % of the forward MACs{when} ({_per_image(forward, dense)})"


def _per_image(forward: float, dense: float) -> str:
    return f"{forward / 1e9:.3g} instead of {dense / 1e9:.3g} GMACs per image"


def _parameters(row: Row) -> str:
    return f" and adds {row.extra_params:,.0f} parameters in training" if row.extra_params else ""


def _speed(row: Row) -> str:
    if row.speedup is None:
        return "its speed was not measured"
    speedup, low, high = row.speedup
    step = "routed training step" if _has_dense_part(row) else "training step"
    evidence = f"95 % interval {number(low)} to {number(high)}; ideal {number(row.cost('ideal_speedup'))}"
    if low <= 1 <= high:
        return f"its {step} is not distinguishable from dense in speed: {number(speedup)} times as fast ({evidence})"
    return f"its {step} was measured {number(speedup)} times as fast as the dense one ({evidence})"


def _has_dense_part(row: Row) -> bool:
    return bool(row.spans and requested.scheduled(row.first))
