"""What a run of several architectures says: a statement for each, against its own dense row, and no ranking of them."""

from __future__ import annotations

from collections.abc import Sequence

from reports.architectures import by_architecture
from reports.comparison import Row
from reports.numbers import decimals, millions, names, plural
from reports.verdict import Outcome, against_dense, outcome, runners_up, speed

_SAID: dict[Outcome, str] = {
    "better": "Routing is better in FID than dense training in {}",
    "not beyond chance": "lower, but not beyond chance, in {}",
    "open": "not told from dense in {}",
    "worse": "worse in {}",
    "unknown": "without a verdict in {}",
}


def lead(rows: Sequence[Row]) -> str:
    """One sentence over all architectures: where the best routed row gains, loses, or cannot be told from dense."""
    found: dict[Outcome, list[str]] = {}
    for members in by_architecture(rows):
        best = _best(members)
        found.setdefault(outcome(best) if best else "unknown", []).append(members[0].architecture)
    parts = [said.format(names(found[key])) for key, said in _SAID.items() if key in found]
    start = "" if "better" in found else "Routing is "
    return f"{start}{'; '.join(parts)}."


def scope(rows: Sequence[Row]) -> str:
    """What the statements compare, and what they do not."""
    params = [p for members in by_architecture(rows) if (p := members[0].cost("params"))]
    sizes = f" ({millions(min(params))} to {millions(max(params))})" if params else ""
    return (
        "Each architecture is judged against its own dense row. Their FIDs are not ranked against each other: "
        f"parameters are matched only roughly{sizes}, and nothing else is tuned for each."
    )


def statements(rows: Sequence[Row]) -> list[tuple[str, str, str]]:
    """(architecture, its parameters, what routing does to its quality and speed)."""
    return [
        (members[0].architecture, f"{millions(members[0].cost('params'))} parameters", _statement(members))
        for members in by_architecture(rows)
    ]


def _best(rows: Sequence[Row]) -> Row | None:
    scored = [(fid.mean, k, row) for k, row in enumerate(rows) if not row.is_dense and (fid := row.fid)]
    return min(scored)[2] if scored else None


def _statement(rows: list[Row]) -> str:
    best = _best(rows)
    if best is None:
        failed = [record for row in rows for record in row.not_done]
        return f"no routed row has an FID ({plural(len(failed), 'cell')} not finished)."
    routed = [row for row in rows if not row.is_dense and row.fid]
    which = f", lowest FID of {len(routed)} routed rows{runners_up(best, routed)}" if len(routed) > 1 else ""
    quality = against_dense(best, rows, decimals([best.fid.mean if best.fid else None]))
    return f"{best.short_label}{which}: {quality}; {speed(best)}."
