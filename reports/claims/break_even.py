"""What a run says that trains nothing: from how many tokens on a route pays on its machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

from tread_bench.core.describe.routes import parse_routes
from tread_bench.core.describe.selectors import DEFAULT_SELECTOR
from tread_bench.reports.rows import requested
from tread_bench.reports.rows.architectures import by_architecture
from tread_bench.reports.rows.row import Row
from tread_bench.reports.text.numbers import millions, names, number, plural

SCOPE = (
    "Nothing was trained or evaluated: this is what a route saves or costs in time on this machine. What it costs in "
    "quality is not known from this run."
)
_RULE = (
    "A route pays from the first number of tokens on at which the whole 95 % interval of its speed-up lies above 1, "
    "there and at every larger number that was measured."
)


@dataclass(frozen=True, slots=True)
class TimedRow:
    """A row at its number of tokens, with the achieved speed-up of a training step and its 95 % interval."""

    tokens: int
    row: Row
    speedup: float
    low: float
    high: float

    @property
    def is_faster(self) -> bool:
        return self.low > 1

    @property
    def is_slower(self) -> bool:
        return self.high < 1


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
            if not point.is_faster:
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
        found: dict[str, list[TimedRow]] = {}
        for row in sorted(members, key=_rates):
            tokens = row.cost("dense_tokens")
            if requested.is_timed_only(row.first) and tokens and row.speedup:
                found.setdefault(_route(row), []).append(TimedRow(int(tokens), row, *row.speedup))
        name = _name(members)
        lines += [Line(name, route, tuple(sorted(points, key=attrgetter("tokens")))) for route, points in found.items()]
    return lines


def _rates(row: Row) -> list[float]:
    return [route.rate for route in parse_routes(row.first.routes)]


def _name(rows: Sequence[Row]) -> str:
    """What rows of one architecture are called together."""
    return rows[0].architecture or rows[0].group.backbone


def _route(row: Row) -> str:
    """What was timed: "dense", "2:8@0.5", "2:8@0.5 rows" or "sprint 2:8@0.5"."""
    first = row.first
    parts = [] if requested.is_plain_routing(first) else [requested.method(first)]
    if row.spans:
        parts.append(first.routes)
        parts += [first.selector] if first.selector != DEFAULT_SELECTOR else []
    return " ".join(parts)


def summary(rows: Sequence[Row]) -> str:
    """Return where the route that pays first does so, architecture by architecture, in a sentence."""
    pays, never = [], []
    for members in by_architecture(rows):
        lines = _routed(members)
        starts = [(start.tokens, line) for line in lines if (start := line.pays_from)]
        if starts:
            tokens, line = min(starts, key=lambda start: start[0])
            pays.append(f"in {line.architecture} from {tokens:,} tokens on ({line.route})")
        elif lines:
            never.append(lines[0].architecture)
    if not pays and not never:
        return "No speed was measured, so nothing is known yet of where a route pays."
    if not pays:
        return f"On this machine no route pays at any number of tokens that was measured, in {names(never)}."
    nowhere = f"; in {names(never)} none pays" if never else ""
    return f"On this machine a route pays {names(pays)}{nowhere}."


def statements(rows: Sequence[Row]) -> list[tuple[str, str, str]]:
    """(architecture, its parameters, from where on each of its routes pays)."""
    found = []
    for members in by_architecture(rows):
        lines = _routed(members)
        said = "; ".join(in_words(line) for line in lines) or "no speed of a route was measured"
        found.append((_name(members), f"{millions(members[0].cost('params'))} parameters", f"{said}."))
    return found


def in_words(line: Line) -> str:
    """From where on one route pays: "2:8@0.5 pays from 64 tokens on (1.18 times as fast; at 4,096 1.61)"."""
    first, last, start = line.points[0], line.points[-1], line.pays_from
    if start is None:
        return f"{line.route} does not pay {_range(line)} ({_at(last)})"
    also = "" if start is last else f"; at {last.tokens:,} {number(last.speedup)}"
    gain = f"{number(start.speedup)} times as fast{also}"
    if len(line.points) == 1:
        return f"{line.route} pays at {start.tokens:,} tokens ({gain})"
    if start is first:
        return f"{line.route} pays from {start.tokens:,} tokens on, the fewest measured ({gain})"
    if start is last:
        return f"{line.route} pays at {start.tokens:,} tokens, the most measured ({gain})"
    return f"{line.route} pays from {start.tokens:,} tokens on ({gain})"


def rule(rows: Sequence[Row]) -> str:
    """When a route is said to pay, and how many images the timed steps had."""
    sizes: dict[int, set[int]] = {}
    for line in lines_of(rows):
        for point in line.points:
            sizes.setdefault(point.tokens, set()).update(timing.batch for timing in point.row.timings)
    timed = []
    for tokens, found in sorted(sizes.items()):
        timed.append(f"{' or '.join(plural(size, 'image') for size in sorted(found))} of {tokens:,} tokens")
    return f"{_RULE} Timed: steps of {names(timed)}." if timed else _RULE


def _routed(rows: Sequence[Row]) -> list[Line]:
    return lines_of([row for row in rows if not row.is_dense])


def _range(line: Line) -> str:
    first, last = line.points[0].tokens, line.points[-1].tokens
    return f"at {last:,} tokens" if first == last else f"from any of {first:,} to {last:,} tokens on"


def _at(point: TimedRow) -> str:
    how = "slower" if point.is_slower else "faster" if point.is_faster else "not distinguishable"
    return (
        f"{how} at {point.tokens:,}: {number(point.speedup)} times as fast, {number(point.low)} to {number(point.high)}"
    )
