"""What a token costs in time in each architecture, and from how many tokens on linear time pays against attention."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from statistics import median
from typing import NamedTuple

from tread_bench.core.describe.routes import parse_routes
from tread_bench.core.numbers.statistics import MeanInterval
from tread_bench.reports.rows import requested
from tread_bench.reports.rows.row import Row, by_key
from tread_bench.reports.text.sentences import say

_GROWS = 1.05  # times as many multiply-adds per token as at fewer of them


@dataclass(frozen=True, slots=True)
class TimedToken:
    """A row at its number of tokens: microseconds of a training step per token of an image, with all measurements."""

    tokens: int
    row: Row
    us: MeanInterval

    @property
    def macs(self) -> float:
        return (self.row.cost("forward_macs") or 0) / self.tokens


@dataclass(frozen=True, slots=True)
class Pace:
    """One architecture at one bypass rate (0: dense), by number of tokens."""

    architecture: str
    rate: float
    points: tuple[TimedToken, ...]

    @property
    def family(self) -> str:
        return self.points[0].row.first.family

    @property
    def grows(self) -> bool:
        """Return whether a token costs more multiply-adds among more tokens, as with softmax attention."""
        return self.points[-1].macs > _GROWS * min(point.macs for point in self.points)

    @property
    def mixes(self) -> bool:
        """Return whether it has attention or a recurrence at all: a frame without either is a control."""
        return any(self.points[0].row.cost(kind) for kind in ("attention_macs", "scan_macs"))


class Overtaking(NamedTuple):
    """From how many tokens on `linear` is faster than `attention`; None: not at the most of them."""

    linear: Pace
    attention: Pace
    tokens: int | None
    most: int
    ratio: float  # time of attention over its own, at the most tokens


def paces(rows: Sequence[Row]) -> list[Pace]:
    """Return a pace per architecture and rate of rows that were only timed, dense and with one plain route.

    Every row was timed in turn with its dense twin, so a dense step was measured as often as an architecture has rows,
    at different moments. Its time is the median of those measurements, and its interval has all of them and their own
    bootstrap intervals: it also says by how much the machine changed its speed. A routed step is that time over the
    row's paired speed-up.
    """
    plain = [row for row in rows if row.is_dense or (len(row.spans) == 1 and requested.is_routing_alone(row.first))]
    timed = [row for row in plain if requested.is_timed_only(row.first) and row.cost("dense_tokens") and row.speedup]
    found: dict[tuple[str, float], list[TimedToken]] = {}
    for (name, tokens), members in by_key(timed, _size).items():
        dense = _dense_us(members, tokens)
        for row in members:
            rate = sum(route.rate for route in parse_routes(row.first.routes))
            found.setdefault((name, rate), []).append(TimedToken(tokens, row, _over(dense, row)))
    return [Pace(name, rate, tuple(sorted(points, key=attrgetter("tokens")))) for (name, rate), points in found.items()]


def _size(row: Row) -> tuple[str, int]:
    return row.architecture or row.group.backbone, int(row.cost("dense_tokens") or 0)


def _dense_us(rows: Sequence[Row], tokens: int) -> MeanInterval:
    """Microseconds of a dense step per token, by all its measurements beside these rows."""
    medians, bounds = [], []
    for timing in (timing for row in rows for timing in row.timings):
        us_of_ms = 1e3 / (timing.batch * tokens)
        medians.append(us_of_ms * median(timing.reference_step_times_ms))
    for timing in (timing for row in rows if row.is_dense for timing in row.timings):
        us_of_ms = 1e3 / (timing.batch * tokens)
        medians.append(us_of_ms * timing.step_time_ms)
        bounds += [us_of_ms * timing.step_time_low_ms, us_of_ms * timing.step_time_high_ms]
    return MeanInterval(median(medians), min(medians + bounds), max(medians + bounds), len(medians))


def _over(dense: MeanInterval, row: Row) -> MeanInterval:
    """The time of a row's step, from that of the dense one."""
    if row.is_dense or row.speedup is None or dense.bounds is None:
        return dense
    speedup, low, high = row.speedup
    return MeanInterval(dense.mean / speedup, dense.bounds[0] / high, dense.bounds[1] / low, dense.n)


def overtakings(found: Sequence[Pace]) -> list[Overtaking]:
    """Return where each architecture of linear cost overtakes those of its own family whose cost grows, rate by rate.

    From a number of tokens on it is faster if there, and at every larger one, the whole interval of its time lies below
    the whole interval of the other's.
    """
    made: list[Overtaking] = []
    for attention in found:
        for linear in found:
            are_alike = (linear.family, linear.rate) == (attention.family, attention.rate)
            if are_alike and attention.grows and linear.mixes and not linear.grows:
                made += _overtaking(linear, attention)
    return made


def _overtaking(linear: Pace, attention: Pace) -> Iterator[Overtaking]:
    others = {point.tokens: point.us for point in attention.points}
    shared = [point for point in linear.points if point.tokens in others]
    if not shared:
        return
    first = None
    for point in reversed(shared):
        if not _is_below(point.us, others[point.tokens]):
            break
        first = point.tokens
    most = shared[-1]
    yield Overtaking(linear, attention, first, most.tokens, others[most.tokens].mean / most.us.mean)


def _is_below(one: MeanInterval, other: MeanInterval) -> bool:
    return one.high is not None and other.low is not None and one.high < other.low


def summary(rows: Sequence[Row]) -> str:
    """Return in a sentence from how many tokens on linear time pays, dense; "" where nothing can be compared."""
    dense = [one for one in overtakings(paces(rows)) if not one.linear.rate]
    return say("time_per_token", "summary", found=dense) if dense else ""
