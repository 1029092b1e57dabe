"""Routes as trainers write them: a route that was found here, to copy, and theirs, to price here.

Which end is meant, and how a ratio is rounded, was read in 2026; docs/methods/routes.md says where.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tread_bench.core.describe.routes import ResolvedRoute, Route, as_routes, format_routes
from tread_bench.core.names import unknown

_FIZGIG = re.compile(r"(?:tread=)?(?P<rate>[0-9]*\.?[0-9]+)@(?P<start>[0-9]+)-(?P<end>[0-9]+)")


@dataclass(frozen=True, slots=True)
class Dialect:
    """One way to write routes.

    Args:
        title: what the text belongs to.
        write: routes with block numbers -> the text.
        takes_one: no more than one route can be written.
        fewest_blocks: that a route must have.
    """

    title: str
    write: Callable[[Sequence[ResolvedRoute]], str]
    takes_one: bool = False
    fewest_blocks: int = 1

    def takes(self, routes: Sequence[ResolvedRoute]) -> bool:
        """Return whether the trainer accepts these routes."""
        is_number_right = len(routes) == 1 if self.takes_one else bool(routes)
        return is_number_right and all(len(route.blocks) >= self.fewest_blocks for route in routes)


def _suite(routes: Sequence[ResolvedRoute]) -> str:
    return f'{{method: tread, routes: "{format_routes(routes)}"}}'


def _call(routes: Sequence[ResolvedRoute]) -> str:
    return f'routed(x, t, y, routes="{format_routes(routes)}")'


@dataclass(frozen=True, slots=True)
class _Keys:
    """A dialect of one mapping: its keys for rate, first and last block, and whether the last one is on the route."""

    rate: str
    start: str
    end: str
    is_inclusive: bool = True
    switch: str = ""  # a key that turns routing on

    def mapping(self, route: ResolvedRoute) -> dict[str, Any]:
        end = route.end if self.is_inclusive else route.end + 1
        on = {self.switch: True} if self.switch else {}
        return {**on, self.rate: route.rate, self.start: route.start, self.end: end}

    def write(self, routes: Sequence[ResolvedRoute]) -> str:
        (route,) = routes
        return json.dumps(self.mapping(route))

    def read(self, found: Mapping[str, Any]) -> Route:
        end = found[self.end]
        return Route(found[self.start], end if self.is_inclusive else _last_before(end), found[self.rate])


def _last_before(end: Any) -> int:
    """The last block on a route whose end is the first block after it. Raises ValueError."""
    if not isinstance(end, int) or end == 0:
        raise ValueError(f"end {end!r}: must be the first block after the route, a block number other than 0")
    return end - 1


_LIST = _Keys("selection_ratio", "start_layer_idx", "end_layer_idx")
_PRX = _Keys("routing_probability", "route_start", "route_end")
_ONE_TRAINER = _Keys("tread_selection_ratio", "tread_start_layer", "tread_end_layer", switch="tread_enabled")
_ANIMA = _Keys("tread_ratio", "tread_start_layer", "tread_end_layer", is_inclusive=False)
_MAPPINGS = (_LIST, _PRX, _ONE_TRAINER, _ANIMA)


def _list(routes: Sequence[ResolvedRoute]) -> str:
    return json.dumps({"routes": [_LIST.mapping(route) for route in routes]})


def _fizgig(routes: Sequence[ResolvedRoute]) -> str:
    (route,) = routes
    return f"tread={route.rate:g}@{route.start}-{route.end + 1}"


DIALECTS = {
    "suite": Dialect("a row of a tread-bench suite", _suite),
    "routed-network": Dialect("a call of RoutedNetwork", _call),
    "tread": Dialect("CompVis/tread: both ends are on the route", _list),
    "simpletuner": Dialect("SimpleTuner, tread_config: both ends are on the route", _list),
    "prx": Dialect("PRX: both ends are on the route", _PRX.write, takes_one=True, fewest_blocks=2),
    "onetrainer": Dialect("OneTrainer: both ends are on the route", _ONE_TRAINER.write, takes_one=True),
    "animalorastudio": Dialect("AnimaLoraStudio: the end is the first block after it", _ANIMA.write, takes_one=True),
    "fizgig": Dialect("Fizgig: the end is the first block after it", _fizgig, takes_one=True),
}


def write_routes(name: str, routes: Sequence[ResolvedRoute], image_share: float = 1.0) -> str:
    """Return routes as one dialect writes them.

    Args:
        name: one of `DIALECTS`.
        image_share: share of image tokens among all tokens, for a trainer that counts text in its ratio and always
            keeps it: it drops rate x (1 + text / image) of the image tokens, so a smaller ratio is written.

    Raises:
        ValueError: the dialect is not known, or its trainer would refuse the routes.
    """
    if name not in DIALECTS:
        raise ValueError(unknown("dialect", name, DIALECTS))
    dialect = DIALECTS[name]
    if not dialect.takes(routes):
        number = "one route" if dialect.takes_one else "a route"
        size = f" of {dialect.fewest_blocks} blocks or more" if dialect.fewest_blocks > 1 else ""
        raise ValueError(f"{name} takes {number}{size}, and {format_routes(routes) or 'none'} was given")
    return dialect.write([route.at_share(image_share) for route in routes])


def moved(routes: Sequence[ResolvedRoute], num_blocks: int, depth: int) -> list[ResolvedRoute]:
    """Return routes of `num_blocks` blocks for a network of `depth`, at the same distance from its ends.

    That is TREAD's absolute rule (i = 2, j = B - 4), which was used from small to XL.

    Raises:
        ValueError: the network is too shallow; the message names the route.
    """
    found = []
    for route in routes:
        end = depth - (num_blocks - route.end)
        if end < route.start:
            raise ValueError(
                f"route {route} of {num_blocks} blocks has no block left in {depth}: name a deeper network"
            )
        found.append(ResolvedRoute(route.start, end, route.rate))
    return found


def read_routes(text: str) -> tuple[Route, ...]:
    """Read routes as written here, or in any of the dialects.

    Raises:
        ValueError: the text is none of them; the message names the rule.
    """
    # One route, as Fizgig or as this project writes it.
    stripped = text.strip()
    if match := _FIZGIG.fullmatch(stripped):
        return (Route(int(match["start"]), _last_before(int(match["end"])), float(match["rate"])),)
    if not stripped.startswith(("{", "[")):
        return as_routes(text)

    # Else the JSON of a trainer: one mapping, or a list of them, alone or under a key of its configuration.
    try:
        found = json.loads(stripped)
    except ValueError as error:
        raise ValueError(f"{stripped[:60]!r} is not JSON: {error}") from None
    for key in ("tread_config", "routes"):
        if isinstance(found, dict) and key in found:
            found = found[key]
    routes = []
    for one in found if isinstance(found, list) else [found]:
        keys = one.keys() if isinstance(one, dict) else set()
        dialect = next((other for other in _MAPPINGS if {other.rate, other.start, other.end} <= keys), None)
        if dialect is None:
            known = "; ".join(f"{other.rate}, {other.start}, {other.end}" for other in _MAPPINGS)
            raise ValueError(f"{json.dumps(one)[:80]} is not a route of a trainer: write {known}, or START:END@RATE")
        routes.append(dialect.read(one))
    return tuple(routes)
