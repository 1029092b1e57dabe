"""What a run says that trains nothing: from how many tokens on a route pays on its machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

from tread_bench.core.describe.routes import parse_routes
from tread_bench.reports.rows import requested
from tread_bench.reports.rows.architectures import by_architecture, name_of
from tread_bench.reports.rows.row import Row, by_key
from tread_bench.reports.text.numbers import millions
from tread_bench.reports.text.sentences import say


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
        timed = []
        for row in sorted(members, key=_rates):
            tokens = row.cost("image_tokens")
            if requested.is_timed_only(row.first) and tokens and row.speedup:
                timed.append(TimedRow(int(tokens), row, *row.speedup))
        for route, points in by_key(timed, lambda point: requested.route(point.row.first)).items():
            lines.append(Line(name_of(members[0]), route, tuple(sorted(points, key=attrgetter("tokens")))))
    return lines


def _rates(row: Row) -> list[float]:
    return [route.rate for route in parse_routes(row.first.routes)]


def summary(rows: Sequence[Row]) -> str:
    """Return where the route that pays first does so, architecture by architecture, in a sentence."""
    pays, never = [], []
    architectures = by_architecture(rows)
    for members in architectures:
        lines = _routed(members)
        starts = [(start.tokens, line) for line in lines if (start := line.pays_from)]
        if starts:
            tokens, line = min(starts, key=lambda start: start[0])
            pays.append((line.architecture, tokens, line.route))
        elif lines:
            never.append(lines[0].architecture)
    return say("break_even", "summary", pays=pays, never=never, count=len(architectures))


def scope() -> str:
    """Return what such a run does not say."""
    return say("break_even", "scope")


def statements(rows: Sequence[Row]) -> list[tuple[str, str, str]]:
    """(architecture, its parameters, from where on each of its routes pays)."""
    found = []
    for members in by_architecture(rows):
        lines = _routed(members)
        said = say("break_even", "statement", said=[in_words(line) for line in lines])
        found.append((name_of(members[0]), f"{millions(members[0].cost('params'))} parameters", said))
    return found


def in_words(line: Line) -> str:
    """From where on one route pays: "2:8@0.5 pays from 64 tokens on (1.18 times as fast; at 4,096 1.61)"."""
    return say("break_even", "line", line=line)


def rule(rows: Sequence[Row]) -> str:
    """When a route is said to pay, and how many images the timed steps had."""
    sizes: dict[int, set[int]] = {}
    for line in lines_of(rows):
        for point in line.points:
            sizes.setdefault(point.tokens, set()).update(timing.batch for timing in point.row.timings)
    return say("break_even", "rule", timed=[(tokens, sorted(found)) for tokens, found in sorted(sizes.items())])


def _routed(rows: Sequence[Row]) -> list[Line]:
    return lines_of([row for row in rows if not row.is_dense])
