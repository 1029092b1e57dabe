"""What a run says that trains nothing: from how many tokens on a route pays on its machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

import pandas as pd

from tread_bench.core.describe.routes import parse_routes
from tread_bench.reports import requested
from tread_bench.reports.figure import Figure
from tread_bench.reports.row import Row, by_architecture, by_key, name_of
from tread_bench.reports.text.numbers import millions, names, number, plural


@dataclass(frozen=True, slots=True)
class TimedRow:
    """A row at its number of tokens, with the achieved speed-up of a training step and its 95 % interval."""

    tokens: int
    row: Row
    speedup: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Line:
    """One route in one architecture, by number of tokens."""

    architecture: str
    route: str
    points: tuple[TimedRow, ...]

    @property
    def pays_from(self) -> TimedRow | None:
        """The first point from which on the route is faster than dense, there and at every later one."""
        first = None
        for point in reversed(self.points):
            if point.low <= 1:
                break
            first = point
        return first


def is_about_speed(rows: Sequence[Row]) -> bool:
    """Return whether nothing of these rows was trained or evaluated."""
    return bool(rows) and all(requested.is_timed_only(row.first) for row in rows)


def lines_of(rows: Sequence[Row]) -> list[Line]:
    """Return a line per architecture and route, by rate, of rows that were only timed; that of dense rows is the
    control.
    """
    lines = []
    for members in by_architecture(rows):
        timed = []
        for row in sorted(members, key=lambda row: [route.rate for route in parse_routes(row.first.routes)]):
            tokens = row.cost("image_tokens")
            if requested.is_timed_only(row.first) and tokens and row.speedup:
                timed.append(TimedRow(int(tokens), row, *row.speedup))
        for route, points in by_key(timed, lambda point: requested.route(point.row.first)).items():
            lines.append(Line(name_of(members[0]), route, tuple(sorted(points, key=attrgetter("tokens")))))
    return lines


def _routed(rows: Sequence[Row]) -> list[Line]:
    return lines_of([row for row in rows if not row.is_dense])


def summary(rows: Sequence[Row]) -> str:
    """Return where the route that pays first does so, architecture by architecture, in a sentence."""
    pays: dict[int, list[tuple[str, str]]] = {}  # by number of tokens: architecture, route
    never = []
    architectures = by_architecture(rows)
    for members in architectures:
        lines = _routed(members)
        starts = [(line.pays_from.tokens, line) for line in lines if line.pays_from]
        if starts:
            tokens, line = min(starts, key=lambda start: start[0])
            pays.setdefault(tokens, []).append((line.architecture, line.route))
        elif lines:
            never.append(lines[0].architecture)
    if not pays and not never:
        return "No speed was measured, so nothing is known yet of where a route pays."
    if not pays:
        return f"On this machine no route pays at any number of tokens that was measured, in {names(never)}."
    places = []
    for tokens, found in sorted(pays.items()):
        if len(found) == 1:
            places.append(f"in {found[0][0]} from {tokens:,} tokens on ({found[0][1]})")
        elif len(found) == len(architectures):
            places.append(f"in all {len(found)} architectures from {tokens:,} tokens on")
        else:
            places.append(f"in {names(name for name, _ in found)} from {tokens:,} tokens on")
    none = f"; in {names(never)} none pays" if never else ""
    return f"On this machine a route pays {names(places)}{none}."


def scope() -> str:
    """Return what such a run does not say."""
    return (
        "Nothing was trained or evaluated: this is what a route saves or costs in time on this machine. What it costs "
        "in quality is not known from this run."
    )


def statements(rows: Sequence[Row]) -> list[tuple[str, str, str]]:
    """(architecture, its parameters, from where on each of its routes pays)."""
    found = []
    for members in by_architecture(rows):
        said = "; ".join(in_words(line) for line in _routed(members)) or "no speed of a route was measured"
        found.append((name_of(members[0]), f"{millions(members[0].cost('params'))} parameters", f"{said}."))
    return found


def in_words(line: Line) -> str:
    """From where on one route pays: "2:8@0.5 pays from 64 tokens on (1.18 times as fast; at 4,096 1.61)"."""
    first, last, start = line.points[0], line.points[-1], line.pays_from
    if start is None:
        where = f"from any of {first.tokens:,} to {last.tokens:,} tokens on"
        if first is last:
            where = f"at {last.tokens:,} tokens"
        how = "slower" if last.high < 1 else "faster" if last.low > 1 else "not distinguishable"
        figures = f"{number(last.speedup)} times as fast, {number(last.low)} to {number(last.high)}"
        return f"{line.route} does not pay {where} ({how} at {last.tokens:,}: {figures})"
    gain = f"{number(start.speedup)} times as fast"
    if start is not last:
        gain += f"; at {last.tokens:,} {number(last.speedup)}"
    tokens = f"{start.tokens:,} tokens"
    if first is last:
        return f"{line.route} pays at {tokens} ({gain})"
    if start is first:
        return f"{line.route} pays from {tokens} on, the fewest measured ({gain})"
    if start is last:
        return f"{line.route} pays at {tokens}, the most measured ({gain})"
    return f"{line.route} pays from {tokens} on ({gain})"


def rule(rows: Sequence[Row]) -> str:
    """When a route is said to pay, and how many images the timed steps had."""
    sizes: dict[int, set[int]] = {}
    for line in lines_of(rows):
        for point in line.points:
            sizes.setdefault(point.tokens, set()).update(timing.batch for timing in point.row.timings)
    steps = []
    for tokens, found in sorted(sizes.items()):
        steps.append(f"{' or '.join(plural(size, 'image') for size in sorted(found))} of {tokens:,} tokens")
    timed = f" Timed: steps of {names(steps)}." if steps else ""
    return (
        "A route pays from the first number of tokens on at which the whole 95 % interval of its speed-up lies above "
        f"1, there and at every larger number that was measured.{timed}"
    )


def figure(rows: Sequence[Row]) -> Figure:
    """Speed-ups over the number of tokens, a panel per architecture, a line per route, its ideal dashed."""
    lines = []
    for line in lines_of(rows):
        for point in line.points:
            start = f"{line.pays_from.tokens:,}" if line.pays_from else "never here"
            is_dense = point.row.is_dense
            batch, step_ms = point.row.timings[0].batch, point.row.timing("step_time_ms")
            of_row = (point.row.name, line.route, line.architecture, is_dense, "control" if is_dense else start)
            ideal = None if is_dense else point.row.ideal_speedup
            lines.append((*of_row, point.tokens, point.speedup, point.low, point.high, ideal, batch, step_ms, 1))
    columns = ["row", "route", "architecture", "is_dense", "pays", "tokens", "speedup", "low", "high", "ideal", "batch"]
    found = pd.DataFrame(lines, columns=[*columns, "step_ms", "seeds"])
    return Figure(
        name="break_even",
        highest_first=True,
        title="Speed-up against tokens",
        caption="Training steps timed alone, in turn with the dense twin of the row; 95 % bootstrap intervals of the "
        "median ratio. Dashed: ideal, from forward MACs. Dense beside itself is the control and should be at 1. "
        f"{rule(rows)}",
        lines=found if found[~found.is_dense.astype(bool)].groupby("route").tokens.nunique().gt(1).any() else found[:0],
        x="tokens",
        y="speedup",
        hue="route",
        panel="architecture",
        low="low",
        high="high",
        ideal="ideal",
        still=1.0,
        logarithmic="x",
        extra={"batch": "images per step", "step_ms": "step ms", "pays": "pays from"},
        titles={"tokens": "tokens of an image", "speedup": "speed-up of a training step"},
    )  # fmt: skip
