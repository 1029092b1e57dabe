"""What a token costs in time in each architecture, and from how many tokens on linear time pays against attention."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from tread_bench.core.describe.routes import parse_routes
from tread_bench.core.numbers.statistics import MeanInterval
from tread_bench.reports.rows import requested
from tread_bench.reports.rows.row import Row, by_key
from tread_bench.reports.text.sentences import say

_GROWS = 1.05  # times as many multiply-adds per token as at fewer of them


@dataclass(frozen=True, slots=True)
class TimedToken:
    """A row at its number of tokens: microseconds of a training step per token of an image, with a 95 % interval."""

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
    """Return a pace per architecture and rate of rows that were only timed, dense and with one plain route."""
    timed: list[tuple[tuple[str, float], TimedToken]] = []
    for row in rows:
        is_plain = row.is_dense or (len(row.spans) == 1 and requested.is_routing_alone(row.first))
        tokens = row.cost("dense_tokens")
        if not requested.is_timed_only(row.first) or not is_plain or not tokens or len(row.timings) != 1:
            continue
        (timing,) = row.timings
        step_ms = (timing.step_time_ms, timing.step_time_low_ms, timing.step_time_high_ms)
        mean, low, high = (1e3 * ms / (timing.batch * tokens) for ms in step_ms)
        rate = sum(route.rate for route in parse_routes(row.first.routes))
        name = row.architecture or row.group.backbone
        timed.append(
            ((name, rate), TimedToken(int(tokens), row, MeanInterval(mean, low, high, len(timing.step_times_ms))))
        )
    found = by_key(timed, lambda one: one[0])
    return [
        Pace(name, rate, tuple(sorted((point for _, point in points), key=attrgetter("tokens"))))
        for (name, rate), points in found.items()
    ]


def overtakings(found: Sequence[Pace]) -> list[Overtaking]:
    """Return where each architecture of linear cost overtakes those of its own family whose cost grows, rate by rate.

    From a number of tokens on it is faster if there, and at every larger one, the whole interval of its time lies below
    the whole interval of the other's. The two were not timed in turn.
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
