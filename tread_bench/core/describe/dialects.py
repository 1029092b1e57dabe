"""Routes as trainers write them, to copy.

Which end is meant, and how a ratio is rounded, was read in 2026; docs/methods/routes.md says where.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tread_bench.core.describe.routes import ResolvedRoute, format_routes
from tread_bench.core.names import unknown

Routes = Sequence[ResolvedRoute]


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
    write: Callable[[Routes], str]
    takes_one: bool = False
    fewest_blocks: int = 1

    def takes(self, routes: Routes) -> bool:
        """Return whether the trainer accepts these routes."""
        is_number_right = len(routes) == 1 if self.takes_one else bool(routes)
        return is_number_right and all(len(route.blocks) >= self.fewest_blocks for route in routes)


def _suite(routes: Routes) -> str:
    return f'{{method: tread, routes: "{format_routes(routes)}"}}'


def _call(routes: Routes) -> str:
    return f'routed(x, t, y, routes="{format_routes(routes)}")'


def _list(routes: Routes) -> str:
    written = []
    for route in routes:
        written.append({"selection_ratio": route.rate, "start_layer_idx": route.start, "end_layer_idx": route.end})
    return json.dumps({"routes": written})


def _prx(routes: Routes) -> str:
    (route,) = routes
    return json.dumps({"routing_probability": route.rate, "route_start": route.start, "route_end": route.end})


def _one_trainer(routes: Routes) -> str:
    (route,) = routes
    ends = {"tread_start_layer": route.start, "tread_end_layer": route.end}
    return json.dumps({"tread_enabled": True, "tread_selection_ratio": route.rate, **ends})


def _anima(routes: Routes) -> str:
    (route,) = routes
    ends = {"tread_start_layer": route.start, "tread_end_layer": route.end + 1}
    return json.dumps({"tread_ratio": route.rate, **ends})


def _fizgig(routes: Routes) -> str:
    (route,) = routes
    return f"tread={route.rate:g}@{route.start}-{route.end + 1}"


DIALECTS = {
    "suite": Dialect("a row of a tread-bench suite", _suite),
    "routed-network": Dialect("a call of RoutedNetwork", _call),
    "tread": Dialect("CompVis/tread: both ends are on the route", _list),
    "simpletuner": Dialect("SimpleTuner, tread_config: both ends are on the route", _list),
    "prx": Dialect("PRX: both ends are on the route", _prx, takes_one=True, fewest_blocks=2),
    "onetrainer": Dialect("OneTrainer: both ends are on the route", _one_trainer, takes_one=True),
    "animalorastudio": Dialect("AnimaLoraStudio: the end is the first block after it", _anima, takes_one=True),
    "fizgig": Dialect("Fizgig: the end is the first block after it", _fizgig, takes_one=True),
}


def write_routes(name: str, routes: Routes, image_share: float = 1.0) -> str:
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


def moved(routes: Routes, num_blocks: int, depth: int) -> list[ResolvedRoute]:
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
