"""Routes as trainers write them: a route that was found here, to copy, and theirs, to price here.

Both ends are on the route in each of them, as read in 2026; docs/methods/routes.md says where.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from tread_bench.core.describe.routes import ResolvedRoute, Route, as_routes, format_routes
from tread_bench.core.names import unknown


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a trainer writes routes.

    Args:
        title: the trainer.
        rate, start, end: its keys for the share that bypasses, the first and the last block.
        is_list: it takes a list of routes, under `routes`, and else one route.
        fewest_blocks: that a route must have.
        switch: a key that turns routing on.
    """

    title: str
    rate: str
    start: str
    end: str
    is_list: bool = False
    fewest_blocks: int = 1
    switch: str = ""

    def takes(self, routes: Sequence[ResolvedRoute]) -> bool:
        """Return whether the trainer accepts these routes."""
        is_number_right = bool(routes) if self.is_list else len(routes) == 1
        return is_number_right and all(len(route.blocks) >= self.fewest_blocks for route in routes)

    def write(self, routes: Sequence[ResolvedRoute]) -> str:
        """Return routes that the trainer takes as JSON."""
        written = []
        for route in routes:
            keys = {self.rate: route.rate, self.start: route.start, self.end: route.end}
            written.append({self.switch: True, **keys} if self.switch else keys)
        return json.dumps({"routes": written} if self.is_list else written[0])


_TREAD = ("selection_ratio", "start_layer_idx", "end_layer_idx")
_ONE_TRAINER = ("tread_selection_ratio", "tread_start_layer", "tread_end_layer")
DIALECTS = {
    "tread": Dialect("CompVis/tread", *_TREAD, is_list=True),
    "simpletuner": Dialect("SimpleTuner, tread_config", *_TREAD, is_list=True),
    "prx": Dialect("PRX", "routing_probability", "route_start", "route_end", fewest_blocks=2),
    "onetrainer": Dialect("OneTrainer", *_ONE_TRAINER, switch="tread_enabled"),
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
        number = "a route" if dialect.is_list else "one route"
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
    if not text.strip().startswith(("{", "[")):
        return as_routes(text)

    # The JSON of a trainer: one mapping, or a list of them, alone or under a key of its configuration.
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{text.strip()[:60]!r} is not JSON: {error}") from None
    for key in ("tread_config", "routes"):
        if isinstance(found, dict) and key in found:
            found = found[key]
    routes = []
    for one in found if isinstance(found, list) else [found]:
        for dialect in DIALECTS.values():
            if isinstance(one, dict) and {dialect.rate, dialect.start, dialect.end} <= one.keys():
                routes.append(Route(one[dialect.start], one[dialect.end], one[dialect.rate]))
                break
        else:
            known = "; ".join(f"{other.rate}, {other.start}, {other.end}" for other in DIALECTS.values())
            raise ValueError(f"{json.dumps(one)[:80]} is not a route of a trainer: write {known}, or START:END@RATE")
    return tuple(routes)
