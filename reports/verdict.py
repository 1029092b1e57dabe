"""The result of a run in a few sentences: which row is best, how certain that is, and what it costs or saves."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Literal

from tread_bench.core.config.methods import PLAINLY_DENSE
from tread_bench.core.statistics import LEVEL, Estimate, holm, paired_difference, paired_p_value
from tread_bench.reports import requested
from tread_bench.reports.comparison import Group, Row, fids_against_best, lowest_fids
from tread_bench.reports.numbers import decimals, interval, names, number, plural

Outcome = Literal["better", "not beyond chance", "open", "worse", "unknown"]


def verdicts(rows: Sequence[Row], is_over: bool = True) -> list[tuple[Group, str, str]]:
    """(group, sentence on quality, sentence on cost) for every group of rows that may be ranked together.

    For an unfinished run, what is not known is said to be not known yet.
    """
    return [(group, *_verdict(list(members), is_over)) for group, members in groupby(rows, lambda row: row.group)]


def _verdict(rows: list[Row], is_over: bool) -> tuple[str, str]:
    if not any(row.done for row in rows):
        return "No cell of this comparison has finished, so there is no result yet.", _missing(rows)
    routed = [row for row, _ in ranked(rows)]
    if not routed:
        return _without_ranks(rows, is_over), _cheapest(rows, is_over)
    best = lowest_fids(rows, routed)[0]
    places = decimals(row.fid.mean for row in rows if row.fid)
    quality = f"{_mean(best, routed, places)}{runners_up(rows, routed)}; {against_dense(best, rows, places)}."
    cost = f"{_cost(best)}{_of_tread(best, routed, rows, places)}"
    return quality, cost


def ranked(rows: Sequence[Row]) -> list[tuple[Row, Estimate]]:
    """The rows that may be ranked by FID, with it: not the reference, nor dense controls among other methods."""
    scored = []
    for row in rows:
        fid = row.fid
        if fid and not row.is_dense and not row.is_judged_by_teacher:
            scored.append((row, fid))
    of_methods = [(row, fid) for row, fid in scored if requested.method(row.first) != PLAINLY_DENSE.name]
    return of_methods or scored


def kind(rows: Sequence[Row]) -> str:
    """What these rows, without dense, compare: methods, rates of a route, routes, or just rows."""
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
    if any(row.is_judged_by_teacher for row in rows):
        return "No row other than dense is ranked: the network that measures FID was their teacher."
    finished = "finished" if is_over else "has finished yet"
    return f"No row other than dense {finished}, so there is nothing to compare with dense training."


def _cheapest(rows: list[Row], is_over: bool) -> str:
    counted = [row for row in rows if not row.is_dense and row.cost("forward_macs")]
    if not counted:
        return f"What routing would cost or save is not known from these rows{'' if is_over else ' yet'}."
    return _cost(min(counted, key=lambda row: row.cost("forward_macs") or 0))


def _mean(best: Row, routed: Sequence[Row], places: int) -> str:
    fid = best.fid
    assert fid is not None
    sure = f"95 % interval {interval(fid, places)}, {fid.n} seeds" if fid.n > 1 else "one seed, so no interval"
    if len(routed) == 1:
        return f"{best.short_label} has an FID of {number(fid.mean, places)} ({sure})"
    among = plural(len(routed), kind(routed))
    return f"Of {among}, {best.short_label} has the lowest FID: {number(fid.mean, places)} ({sure})"


def runners_up(rows: Sequence[Row], routed: Sequence[Row]) -> str:
    """The rows other than dense that are not distinguishable from the best of them."""
    if len(routed) == 1:
        return ""
    alike = [row.short_label for row in lowest_fids(rows, routed)[1:]]
    if not alike:
        return f", significantly lower than that of every other {kind(routed)}"
    if len(alike) == len(routed) - 1 > 1:
        return f", not distinguishable from any other {kind(routed)}"
    return f", not distinguishable from {names(alike)}"


def smallest_difference(rows: Sequence[Row]) -> str:
    """How far above the lowest FID of its group a row must be to be detected with these seeds; "" if not compared."""
    found = fids_against_best(rows)
    if len(found.names) < 2:
        return ""
    if found.smallest is None:
        return "none of any size"
    return f"{100 * found.smallest:.2g} %" if found.is_relative else f"{found.smallest:.2g} FID"


def detectable(sets: Sequence[tuple[str, Sequence[Row]]]) -> str:
    """What the seeds of each named set of rows could have detected, in a sentence; "" where nothing is compared."""
    differences = [(name, smallest_difference(rows)) for name, rows in sets]
    found = [(name, difference) for name, difference in differences if difference]
    if not found:
        return ""
    each = [f"{difference} ({name})" if len(found) > 1 else difference for name, difference in found]
    return (
        f"Smallest difference from the lowest FID that these seeds could have detected: {', '.join(each)} (Hsu’s "
        "multiple comparisons with the best on log FID, seeds as blocks, at 5 %)."
    )


def outcome(row: Row) -> Outcome:
    """What can be concluded about a row's FID against dense."""
    difference = row.difference("fid")
    if difference is None or difference.bounds is None:
        return "unknown"
    if row.fid_p_value is not None and row.fid_p_value <= LEVEL:
        return "worse" if difference.mean > 0 else "better"
    return "not beyond chance" if difference.excludes(0) else "open"


def against_dense(row: Row, rows: Sequence[Row], places: int) -> str:
    """The row's FID compared with dense, as the end of a sentence."""
    # Without a pair, or with only one.
    difference = row.difference("fid")
    if difference is None:
        has_dense = any(other.is_dense and other.done for other in rows)
        why = "no seed has both" if has_dense else "it has no finished dense row"
        return f"whether that is better or worse than dense cannot be said, because {why}"
    size = number(abs(difference.mean), places)
    if difference.bounds is None:
        way = "lower" if difference.mean < 0 else "higher"
        return f"it is {size} {way} than dense on the one seed that both have, which is too few to decide"

    # With several, by the outcome of the test.
    way = "below" if difference.mean < 0 else "above"
    evidence = f"difference {interval(difference, places, signed=True)}, {plural(difference.n, 'paired seed')}"
    return {
        "worse": f"its quality is worse than dense, by {size} FID ({evidence})",
        "open": f"it is not significantly different from dense ({evidence})",
        "better": f"it is better than dense, by {size} FID ({evidence})",
        "not beyond chance": f"it is {size} {way} dense ({evidence}), which is not significant among so many "
        "rows (Holm-adjusted)",
    }[outcome(row)]


def _of_tread(best: Row, routed: Sequence[Row], rows: Sequence[Row], places: int) -> str:
    """TREAD compared with dense and the other methods, where one of these has the lowest FID."""
    own = next((row for row in routed if requested.is_routing_alone(row.first)), None)
    if own is None or own is best or kind(routed) != "method":
        return ""
    others = _against(own, [row for row in routed if row is not own and row is not best])
    return f" As for {own.short_label}, {against_dense(own, rows, places)}; {others}{_speed(own)}."


def _against(own: Row, others: Sequence[Row]) -> str:
    """Which of the other rows differ in FID from one, by paired tests."""
    if not others:
        return ""

    # Test each of the others.
    p_values = [paired_p_value(row.scores["fid"], own.scores["fid"]) for row in others]
    adjusted = holm([1.0 if p is None else p for p in p_values])
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


def _cost(row: Row) -> str:
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
    extra = (row.cost("method_params") or 0) + (row.cost("auxiliary_params") or 0)
    return f" and adds {extra:,.0f} parameters in training" if extra else ""


def _speed(row: Row) -> str:
    if row.speedup is None:
        return "its speed was not measured"
    ratio, low, high = row.speedup
    step = "routed training step" if _has_dense_part(row) else "training step"
    evidence = f"95 % interval {number(low)} to {number(high)}; ideal {number(row.cost('ideal_speedup'))}"
    if low <= 1 <= high:
        return f"its {step} is not distinguishable from dense in speed: {number(ratio)} times as fast ({evidence})"
    return f"its {step} was measured {number(ratio)} times as fast as the dense one ({evidence})"


def _has_dense_part(row: Row) -> bool:
    return bool(row.spans and requested.scheduled(row.first))
