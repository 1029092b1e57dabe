"""What a run says, in two sentences: which route is best and how sure that is, and what it costs or saves."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from reports.comparison import Group, Row
from reports.numbers import decimals, interval, names, number, plural
from tread_bench.statistics import LEVEL, indistinguishable_from_best


def verdicts(rows: Sequence[Row]) -> list[tuple[Group, str, str]]:
    """(group, sentence on quality, sentence on cost) for every group of rows that may be ranked together."""
    return [(group, *_verdict(list(members))) for group, members in groupby(rows, lambda row: row.group)]


def _verdict(rows: list[Row]) -> tuple[str, str]:
    if not any(row.done for row in rows):
        return "No cell of this comparison finished, so it says nothing yet.", _missing(rows)
    routed = [row for row in rows if not row.is_dense and row.fid]
    if not routed:
        return _without_routes(rows), _cheapest(rows)
    best = min(routed, key=lambda row: row.fid.mean)
    return f"{_quality(best, routed)}{_against_dense(best, rows)}.", _cost(best)


def _missing(rows: list[Row]) -> str:
    failed = sum(r.status == "failed" for row in rows for r in row.not_done)
    skipped = sum(len(row.not_done) for row in rows) - failed
    return f"{plural(failed, 'cell')} failed and {skipped:,} {'was' if skipped == 1 else 'were'} skipped, for reasons listed below."


def _without_routes(rows: list[Row]) -> str:
    if not any(row.fid for row in rows):
        return "FID was not measured here, so no route can be called best for it."
    return "No routed row finished, so there is nothing to compare with dense training."


def _cheapest(rows: list[Row]) -> str:
    routed = [row for row in rows if not row.is_dense and row.cost("forward_macs")]
    if not routed:
        return "What a route would cost or save is not known from these rows."
    return _cost(min(routed, key=lambda row: row.cost("forward_macs")))


def _quality(best: Row, routed: list[Row]) -> str:
    text = f"Of {plural(len(routed), 'route')}, {best.label} has the lowest FID: {_mean(best)}"
    if len(routed) == 1:
        text = f"{best.label} has an FID of {_mean(best)}"
    return text + _runners_up(best, routed)


def _mean(row: Row) -> str:
    fid, places = row.fid, decimals([row.fid.mean])
    sure = f"95 % interval {interval(fid, places)}, {plural(fid.n, 'seed')}" if fid.n > 1 else "one seed, so no interval"
    return f"{number(fid.mean, places)} ({sure})"


def _runners_up(best: Row, routed: list[Row]) -> str:
    if len(routed) == 1:
        return ""
    scores = {str(i): row.scores["fid"] for i, row in enumerate(routed)}
    alike = [routed[int(i)].label for i in indistinguishable_from_best(scores)[1:]]
    if not alike:
        return ", lower than every other route (paired tests, Holm-adjusted)"
    if len(alike) == len(routed) - 1:
        return ", which cannot be told from any other route"
    return f", which cannot be told from {names(alike)}"


def _against_dense(best: Row, rows: list[Row]) -> str:
    difference = best.difference("fid")
    if difference is None:
        dense = "no dense row finished beside it" if not any(r.is_dense and r.done for r in rows) else "no seed has both"
        return f"; whether that is better or worse than dense cannot be said, because {dense}"
    places = decimals([best.fid.mean])
    size = number(abs(difference.mean), places)
    if difference.low is None:
        way = "lower" if difference.mean < 0 else "higher"
        return f"; it is {size} {way} than dense on the one seed that both have, which settles nothing"
    evidence = f"difference {interval(difference, places, signed=True)}, {plural(difference.n, 'paired seed')}"
    if difference.low > 0:
        return f"; its quality is worse than dense, by {size} FID ({evidence})"
    if difference.high >= 0:
        return f"; it cannot be told from dense ({evidence})"
    if best.fid_p_value is None or best.fid_p_value > LEVEL:
        return f"; that is {size} below dense ({evidence}), but not beyond chance among this many routes (Holm)"
    return f"; it is better than dense, by {size} FID ({evidence})"


def _cost(row: Row) -> str:
    return f"{_macs(row)}, and {_speed(row)}."


def _macs(row: Row) -> str:
    forward, dense = row.cost("forward_macs"), row.cost("dense_forward_macs")
    if not forward:
        return f"The MACs of {row.label} were not counted"
    if forward == dense:
        return f"{row.label} costs as many MACs as dense"
    word = "saves" if forward < dense else "adds"
    return f"{row.label} {word} {abs(1 - forward / dense) * 100:.0f} % of the forward MACs ({_per_image(forward, dense)})"


def _per_image(forward: float, dense: float) -> str:
    return f"{forward / 1e9:.3g} instead of {dense / 1e9:.3g} GMACs per image"


def _speed(row: Row) -> str:
    if row.speedup is None:
        return "its speed was not measured"
    ratio, low, high = row.speedup
    evidence = f"95 % interval {number(low)} to {number(high)}; ideal {number(row.cost('ideal_speedup'))}"
    if low <= 1 <= high:
        return f"its training step cannot be told from the dense one in speed: {number(ratio)} times as fast ({evidence})"
    return f"its training step was measured {number(ratio)} times as fast as the dense one ({evidence})"
