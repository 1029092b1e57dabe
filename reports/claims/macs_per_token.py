"""What a token costs in multiply-adds, and from how many tokens on linear mixing costs fewer than softmax attention."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tread_bench.reports.rows.architectures import by_architecture, name_and_sizes
from tread_bench.reports.rows.row import Row, by_key
from tread_bench.reports.text.sentences import say

_GROWS = 1.5  # times as many multiply-adds of mixing per token, from the fewest tokens to the most


@dataclass(frozen=True, slots=True)
class CountedToken:
    """A row at its number of tokens: multiply-adds of a forward pass per token of an image, of all its blocks."""

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


class Fewer(NamedTuple):
    """From how many tokens on `linear` needs fewer multiply-adds than `attention`; None: not at the most of them."""

    linear: Course
    attention: Course
    tokens: int | None
    most: int
    ratio: float  # multiply-adds of attention over its own, at the most tokens


def courses(rows: Sequence[Row]) -> list[Course]:
    """Return a course per architecture and route of rows that differ in nothing else but their number of tokens."""
    found = []
    for members in by_architecture(rows):
        counted = sorted((CountedToken(int(row.cost("dense_tokens") or 1), row) for row in members), key=_tokens)
        for route, points in by_key(counted, lambda point: point.row.first.routes or "dense").items():
            found.append(Course(members[0].architecture or members[0].group.backbone, route, tuple(points)))
    return found


def _tokens(point: CountedToken) -> int:
    return point.tokens


def fewer(found: Sequence[Course]) -> list[Fewer]:
    """Return where an architecture whose mixing has a linear cost needs fewer than one of its kind whose cost grows:
    there, and at every larger number of tokens.
    """
    return [
        _fewer(linear, attention)
        for attention in found
        for linear in found
        if linear.kind == attention.kind and attention.grows and linear.mixes and not linear.grows
    ]


def _fewer(linear: Course, attention: Course) -> Fewer:
    others = {point.tokens: point for point in attention.points}
    pairs = [(own, others[own.tokens]) for own in linear.points if own.tokens in others]
    first = None
    for own, other in reversed(pairs):
        if own.macs >= other.macs:
            break
        first = own.tokens
    own, other = pairs[-1]
    return Fewer(linear, attention, first, own.tokens, other.macs / own.macs)


def summaries(rows: Sequence[Row]) -> list[str]:
    """Return from how many tokens on linear mixing needs fewer multiply-adds: a sentence for dense networks, and one
    for routed ones; none where nothing can be compared.
    """
    by_way = by_key(fewer(courses(rows)), lambda one: one.linear.is_dense)
    return [say("macs_per_token", "summary", found=found, is_dense=way) for way, found in by_way.items()]
