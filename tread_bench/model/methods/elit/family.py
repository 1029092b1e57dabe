"""Description of ELIT, without torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from tread_bench.core.config.base import Float, Int
from tread_bench.core.describe.methods import MethodFamily, MethodOptions, Tokens
from tread_bench.core.describe.routes import Route, format_routes
from tread_bench.core.problems import Problem
from tread_bench.model.methods.long_skips import halved_skips

if TYPE_CHECKING:
    from tread_bench.core.config.routed import Setting


class ElitOptions(MethodOptions):
    """A route's blocks run on latents, read from groups of tokens and written back to them, at any budget (ELIT)."""

    name: Literal["elit"] = "elit"
    groups: Int = Field(4, ge=1, description="groups of tokens along each side of the grid; must divide both sides")
    heads: Int = Field(16, ge=1, description="heads of reading and of writing; must divide the width")
    budget: Float = Field(
        1.0, gt=0, le=1, description="share of each group's latents that it is evaluated with; rounded, at least one"
    )

    def alternatives(self, routes: tuple[Route, ...], num_tokens: int) -> tuple[tuple[Route, ...], ...]:
        (route,) = routes
        in_group = num_tokens // self.groups**2
        half_a_token = 0.5 / num_tokens  # so that no rounding changes how many are kept
        rates = [1 - kept / in_group + half_a_token for kept in range(route.kept(in_group), in_group + 1)]
        return tuple((Route(route.start, route.end, rate),) for rate in rates)


def _check(setting: Setting) -> Iterator[Problem]:
    cell, (rows, columns) = setting.cell, setting.spec.grid
    options = cell.method
    assert isinstance(options, ElitOptions)
    is_divided = rows % options.groups == columns % options.groups == 0
    if not is_divided:
        message = f"method.groups {options.groups}: must divide both sides of the grid of tokens, {rows} x {columns}"
        yield Problem(message, ("method", "groups"))

    # Its route, which has to drop something if it says so.
    in_group = rows * columns // options.groups**2
    if len(cell.routes) != 1:
        yield Problem(f"method elit takes one route, here {format_routes(cell.routes)}: keep one", ("routes",))
    elif is_divided and cell.routes[0].rate and cell.routes[0].kept(in_group) == in_group:
        rule = f"a group has {in_group}, and so small a share of them is none: raise the rate, or have fewer groups"
        yield Problem(f"route {cell.routes[0]} of method elit never drops a latent: {rule}", ("routes",))
    yield from halved_skips(setting)

    if cell.schedule.warmup:
        rule = "it drops as many latents as it draws, from the first step on"
        yield Problem(f"schedule.warmup with method elit: {rule}; leave it out", ("schedule", "warmup"))


ELIT = MethodFamily(
    name="elit",
    options=ElitOptions,
    builder="tread_bench.model.methods.elit.network:Elit",
    tokens=Tokens.LATENTS,
    has_modules=True,
    chooses_tokens=True,
    check=_check,
    evaluation_options={"budget": 0.5},
)
