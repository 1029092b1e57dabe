"""What a token costs in multiply-adds, and from how many tokens on linear mixing costs fewer than softmax attention."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import product, takewhile
from operator import attrgetter
from typing import Any, NamedTuple, Self

from tread_bench.reports.rows import requested
from tread_bench.reports.rows.architectures import by_architecture, name_and_sizes, name_of
from tread_bench.reports.rows.row import Row, by_key
from tread_bench.reports.text.sentences import say

_GROWS = 1.5  # times as many multiply-adds of mixing per token, from the fewest tokens to the most


@dataclass(frozen=True, slots=True)
class CountedToken:
    """A row at its number of tokens: multiply-adds of a whole forward pass, per token of an image."""

    tokens: int
    row: Row

    @property
    def macs(self) -> float:
        return self._of("forward_macs")

    @property
    def attention(self) -> float:
        return self._of("attention_macs")

    @property
    def scan(self) -> float:
        """The products of recurrences."""
        return self._of("scan_macs")

    @property
    def mixing(self) -> float:
        """Of what joins tokens."""
        return self.attention + self.scan

    @property
    def place(self) -> Hashable:
        """What two of them share that are compared."""
        return self.tokens

    @property
    def cost(self) -> float:
        """Of a token: that by which they are compared."""
        return self.macs

    def costs_less(self, other: Self) -> bool:
        """Return whether it is shown to cost less than another."""
        return self.cost < other.cost

    def _of(self, kind: str) -> float:
        return (self.row.cost(kind) or 0) / self.tokens


@dataclass(frozen=True, slots=True)
class Course:
    """One architecture along one route ("dense": none), by number of tokens."""

    architecture: str
    route: str
    points: tuple[CountedToken, ...]

    @property
    def is_dense(self) -> bool:
        return self.points[0].row.is_dense

    @property
    def kind(self) -> tuple[Any, ...]:
        """What two of them share that differ in how they mix tokens alone: the family, its sizes and the route.

        Sizes are the settings that are numbers; a word names what mixes: "mixer gla".
        """
        name, settings = name_and_sizes(self.points[0].row.first.backbone)
        return name, [setting for setting in settings if re.fullmatch(r"\w+ [\d.]+", setting)], self.route

    @property
    def mixes(self) -> bool:
        """Return whether it has attention or a recurrence at all: a frame without either is a control."""
        return self.points[0].mixing > 0

    @property
    def grows(self) -> bool:
        """Return whether mixing costs more per token among more tokens, as softmax attention does."""
        return self.points[-1].mixing > _GROWS * self.points[0].mixing


class Beside(NamedTuple):
    """From how many tokens on `linear` costs less than `attention`; None: not at the most of them."""

    linear: Course
    attention: Course
    tokens: int | None
    most: int
    ratio: float  # the cost of attention over its own, at the most tokens


def courses(rows: Sequence[Row]) -> list[Course]:
    """Return a course per architecture and route of rows that differ in nothing else but their number of tokens."""
    found = []
    for members in by_architecture(rows):
        counted = [CountedToken(int(row.cost("image_tokens") or 1), row) for row in members]
        for route, points in by_key(counted, lambda point: requested.route(point.row.first)).items():
            found.append(Course(name_of(members[0]), route, tuple(sorted(points, key=attrgetter("tokens")))))
    return found


def beside_attention(found: Sequence[Course]) -> list[Beside]:
    """Return where an architecture whose mixing has a linear cost costs less than one of its kind whose cost grows:
    there, and at every larger number of tokens.
    """
    made = []
    for attention, linear in product(found, repeat=2):
        if linear.kind != attention.kind or not attention.grows or not linear.mixes or linear.grows:
            continue
        others = {point.place: point for point in attention.points}
        pairs = [(own, others[own.place]) for own in linear.points if own.place in others]
        less = [*takewhile(lambda pair: pair[0].costs_less(pair[1]), reversed(pairs))]
        if pairs:
            own, other = pairs[-1]
            first = less[-1][0].tokens if less else None
            made.append(Beside(linear, attention, first, own.tokens, other.cost / own.cost))
    return made


def summaries(rows: Sequence[Row]) -> list[str]:
    """Return from how many tokens on linear mixing needs fewer multiply-adds: a sentence for dense networks, and one
    for routed ones; none where nothing can be compared.
    """
    by_way = by_key(beside_attention(courses(rows)), lambda one: one.linear.is_dense)
    return [say("macs_per_token", "summary", found=found, is_dense=way) for way, found in by_way.items()]
