"""What a token costs in time in each architecture, and from how many tokens on linear time pays against attention."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Self

from tread_bench.core.describe.routes import parse_routes
from tread_bench.core.numbers.statistics import MeanInterval, median_interval
from tread_bench.reports.claims.break_even import Line, TimedRow, lines_of
from tread_bench.reports.claims.macs_per_token import CountedToken, Course, beside_attention
from tread_bench.reports.rows.row import Row, by_key
from tread_bench.reports.text.sentences import say


@dataclass(frozen=True, slots=True)
class TimedToken(CountedToken):
    """The same with microseconds of a training step per token of an image, and all their measurements."""

    us: MeanInterval

    @property
    def place(self) -> Hashable:
        return _place(self)

    @property
    def cost(self) -> float:
        return self.us.mean

    def costs_less(self, other: Self) -> bool:
        """Return whether its whole interval lies below the other's."""
        return other.us.low is not None and self.us.is_below(other.us.low)


@dataclass(frozen=True, slots=True)
class Pace(Course):
    """One architecture along one route ("dense": none), by number of tokens, two of them or more."""

    points: tuple[TimedToken, ...]

    @property
    def rate(self) -> float:
        return sum(route.rate for route in parse_routes(self.points[0].row.first.routes))


def paces(rows: Sequence[Row]) -> list[Pace]:
    """Return a pace per architecture and route of rows that were only timed, if each number of tokens occurs once.

    Every row was timed in turn with its dense twin, so a dense step was measured at as many moments as an architecture
    has rows. Its time is the median of those measurements, and its interval has all of their bootstrap intervals: it
    also says by how much the machine changed its speed. A routed step is that time over the row's paired speed-up.
    """
    found = []
    for lines in by_key(lines_of(rows), lambda line: line.architecture).values():
        points = [point for line in lines for point in line.points]
        dense = {place: _dense_us(beside) for place, beside in by_key(points, _place).items()}
        found += [
            Pace(
                line.architecture,
                line.route,
                tuple(TimedToken(point.tokens, point.row, _over(dense[_place(point)], point)) for point in line.points),
            )
            for line in lines
            if _has_each_number_once(line)
        ]
    return found


def _place(point: TimedRow | TimedToken) -> tuple[int, int]:
    """What two steps share that are compared: tokens of an image, and images."""
    return point.tokens, point.row.timings[0].batch


def _has_each_number_once(line: Line) -> bool:
    return 1 < len(line.points) == len({point.tokens for point in line.points})


def _dense_us(points: Sequence[TimedRow]) -> MeanInterval:
    """Microseconds of a dense step per token, measured beside each of these rows."""
    measured = []
    for point in points:
        for timing in point.row.timings:
            us_of_ms = 1e3 / (timing.batch * point.tokens)
            own = timing.step_times_ms if point.row.is_dense else []
            measured.append([us_of_ms * ms for ms in median_interval([*own, *timing.reference_step_times_ms])])
    medians, lows, highs = zip(*measured, strict=True)
    return MeanInterval(median(medians), min(lows), max(highs), len(medians))


def _over(dense: MeanInterval, point: TimedRow) -> MeanInterval:
    """The time of a row's step, from that of the dense one."""
    if point.row.is_dense or dense.bounds is None:
        return dense
    low, high = dense.bounds
    return MeanInterval(dense.mean / point.speedup, low / point.high, high / point.low, dense.n)


def summary(rows: Sequence[Row]) -> str:
    """Return in a sentence from how many tokens on linear time pays, dense; "" where nothing can be compared."""
    dense = [one for one in beside_attention(paces(rows)) if one.linear.is_dense]
    return say("time_per_token", "summary", found=dense) if dense else ""
