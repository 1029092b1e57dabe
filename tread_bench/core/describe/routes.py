"""Routes: which tokens leave the network, before which block they leave, and after which block they return.

A route is TREAD's i -> j (Krause et al., arXiv 2501.04765, section 3): before block `start` a share `rate` of the
tokens leaves, after block `end` it returns with the values it left with. Both ends are inclusive.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Self

Position = int | Fraction
_DIGITS = r"[0-9]{1,18}"  # as many as fit 64 bits
_NUMBER = rf"-?{_DIGITS}(?:\.{_DIGITS})?(?:/{_DIGITS})?"
_ROUTE = re.compile(rf"\s*(?P<start>{_NUMBER})\s*:\s*(?P<end>{_NUMBER})\s*@\s*(?P<rate>(?:[0-9]+\.|\.)?[0-9]+)\s*")
_WRITTEN = "write START:END@RATE, such as 2:8@0.5, 2:-4@0.5 or 1/6:2/3@0.5"


@dataclass(frozen=True, slots=True, eq=False)
class Route:
    """Tokens leave before block `start` and return after block `end`; a share `rate` of them bypasses.

    Args:
        start, end: block numbers from 0, both inclusive. Negative: counted from the number of blocks, so that -4 is
            TREAD's absolute rule j = B - 4. A fraction (`Fraction` or float in [0, 1]): TREAD's relative rule,
            block = round(fraction * number of blocks).
        rate: share of the tokens that bypasses, in [0, 1). N - int(N * rate) of N tokens are kept.

    Raises:
        ValueError: an impossible position or rate; the message names the rule.
    """

    start: Position
    end: Position
    rate: float

    def __post_init__(self) -> None:
        for name in ("start", "end"):
            object.__setattr__(self, name, _position(getattr(self, name), name))
        if isinstance(self.rate, bool) or not isinstance(self.rate, int | float) or not 0 <= self.rate < 1:
            raise ValueError(f"rate {self.rate!r}: the share of tokens that bypasses must be a number in [0, 1)")
        object.__setattr__(self, "rate", float(self.rate))
        if isinstance(self.start, int) and isinstance(self.end, int) and self.start > self.end >= 0:
            raise ValueError(f"route {self}: start must not come after end; swap the two")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Route):
            return NotImplemented
        return (self.start, self.end, self.rate) == (other.start, other.end, other.rate)

    def __hash__(self) -> int:
        return hash((self.start, self.end, self.rate))

    @classmethod
    def parse(cls, text: str) -> Route:
        """Read `START:END@RATE`. Raises ValueError with the rule."""
        match = _ROUTE.fullmatch(text)
        if not match:
            raise ValueError(f"{text[:60]!r} is not a route: {_WRITTEN}")
        return cls(_read_position(match["start"]), _read_position(match["end"]), float(match["rate"]))

    def __str__(self) -> str:
        rate = format(Decimal(repr(self.rate)).normalize(), "f")  # every digit, and no exponent
        return f"{_written(self.start)}:{_written(self.end)}@{rate}"

    def resolve(self, num_blocks: int) -> ResolvedRoute:
        """Convert to the block numbers of a backbone with `num_blocks` blocks. Raises ValueError."""
        start, end = (_block(p, num_blocks) for p in (self.start, self.end))
        if not (0 <= start < num_blocks and 0 <= end < num_blocks):
            rule = f"both ends must lie in 0..{num_blocks - 1} (or -{num_blocks}..-1); this is {start}:{end}"
            raise ValueError(f"route {self}: the backbone has {num_blocks} blocks, so {rule}")
        if start > end:
            raise ValueError(f"route {self}: of {num_blocks} blocks it starts at {start}, after its end {end}")
        return ResolvedRoute(start, end, self.rate)

    def at_share(self, share: float) -> Self:
        """Return the same route at a share of its rate."""
        return replace(self, rate=self.rate * share)

    def kept(self, num_tokens: int) -> int:
        """Return how many of `num_tokens` stay inside the route: N - int(N * rate), as in TREAD's code."""
        return num_tokens - int(num_tokens * self.rate)


@dataclass(frozen=True, slots=True, eq=False)
class ResolvedRoute(Route):
    """A route in one backbone's block numbers, created by `Route.resolve`. It equals the `Route` of these numbers."""

    start: int
    end: int

    @property
    def blocks(self) -> range:
        """Blocks that the tokens bypass."""
        return range(self.start, self.end + 1)


RoutesLike = str | Route | Iterable[str | Route]  # input of `as_routes`


def as_routes(routes: RoutesLike) -> tuple[Route, ...]:
    """Convert to routes in the given order: several or one, each a `Route` or text, or one comma-separated text.

    Raises:
        ValueError: the value is something else, or a text that is not a route.
    """
    if isinstance(routes, str):
        return parse_routes(routes)
    if isinstance(routes, Route):
        return (routes,)
    if isinstance(routes, Mapping) or not isinstance(routes, Iterable):
        raise ValueError("must be a route such as 2:8@0.5, a list of routes, or [] for none")
    return tuple(route if isinstance(route, Route) else Route.parse(str(route)) for route in routes)


def resolve_routes(routes: RoutesLike, num_blocks: int) -> tuple[ResolvedRoute, ...]:
    """Convert routes to block numbers, in ascending order. Raises ValueError if two of them share a block."""
    resolved = sorted((route.resolve(num_blocks) for route in as_routes(routes)), key=lambda route: route.start)
    for before, after in pairwise(resolved):
        if after.start <= before.end:
            way_out = f"start the second at {before.end + 1} or later, or end the first before {after.start}"
            raise ValueError(f"routes {before} and {after} share block {after.start}: {way_out}")
    return tuple(resolved)


@lru_cache(maxsize=1024)
def parse_routes(text: str) -> tuple[Route, ...]:
    """Read routes separated by commas; an empty text has no routes. Raises ValueError."""
    return tuple(Route.parse(part) for part in text.split(",")) if text.strip() else ()


def format_routes(routes: RoutesLike) -> str:
    """Write routes as text that `parse_routes` reads."""
    return ",".join(str(route) for route in as_routes(routes))


def tokens_per_block(
    routes: Iterable[ResolvedRoute], num_blocks: int, num_tokens: int, num_prefix: int = 0
) -> list[int]:
    """Return the number of tokens that each block processes, including prefix tokens, which are never routed."""
    counts = [num_prefix + num_tokens] * num_blocks
    for route in routes:
        for block in route.blocks:
            counts[block] = num_prefix + route.kept(num_tokens)
    return counts


def _position(value: Position | float, name: str) -> Position:
    if isinstance(value, bool) or not isinstance(value, int | float | Fraction):
        raise ValueError(f"{name} {value!r}: must be a block number or a fraction of the depth")
    if isinstance(value, int):
        return value
    if not 0 <= value <= 1:
        raise ValueError(f"{name} {value}: a fraction of the depth must lie in [0, 1]; a block number is an integer")
    return Fraction(value).limit_denominator(1000)


def _written(position: Position) -> str:
    return str(position) if isinstance(position, int) else f"{position.numerator}/{position.denominator}"


def _read_position(text: str) -> Position:
    if "/" not in text:
        return float(text) if "." in text else int(text)  # type: ignore[return-value]  # Route makes it a Fraction
    above, below = text.split("/")
    if int(below) == 0:
        raise ValueError(f"{text!r} divides by zero: {_WRITTEN}")
    return Fraction(above) / Fraction(below)


def _block(position: Position, num_blocks: int) -> int:
    if isinstance(position, Fraction):
        return round(position * num_blocks)
    return position if position >= 0 else num_blocks + position
