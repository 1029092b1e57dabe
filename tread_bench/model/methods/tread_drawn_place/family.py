"""Description of a route whose place is drawn for every step, without torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from tread_bench.core.describe.guidance import Blocks
from tread_bench.core.describe.methods import Evaluated, MethodFamily, MethodOptions, Tokens
from tread_bench.core.describe.routes import Route, format_routes
from tread_bench.core.problems import Problem

if TYPE_CHECKING:
    from tread_bench.core.config.routed import Setting


class TreadDrawnPlaceOptions(MethodOptions):
    """TREAD with one route whose place is drawn for every step: its own or one of the others stated, at its rate."""

    name: Literal["tread_drawn_place"] = "tread_drawn_place"
    others: Blocks = Field(
        min_length=1, description="START:END of the other places; they and the route's own are equally probable"
    )

    def alternatives(self, routes: tuple[Route, ...], num_tokens: int) -> tuple[tuple[Route, ...], ...]:
        (route,) = routes
        return ((route,), *((Route(place.start, place.end, route.rate),) for place in self.others))


def _check(setting: Setting) -> Iterator[Problem]:
    cell = setting.cell
    assert isinstance(cell.method, TreadDrawnPlaceOptions)
    if len(cell.routes) != 1:
        written = format_routes(cell.routes)
        yield Problem(f"method tread_drawn_place draws the place of one route, here {written}: keep one", ("routes",))
        return
    at = ("method", "others")
    places = cell.method.alternatives(cell.routes, setting.spec.num_tokens)
    try:
        drawn = [setting.family.resolve(setting.spec, place, cell.selector) for place in places]
    except ValueError as error:
        yield Problem(f"method.others: {error}", at)
        return
    repeated = [one for number, one in enumerate(drawn) if one in drawn[:number]]
    if repeated:
        place = format_routes(repeated[0]).partition("@")[0]
        yield Problem(f"method.others: place {place} is written twice, or is the route's own; keep it once", at)


TREAD_DRAWN_PLACE = MethodFamily(
    name="tread_drawn_place",
    options=TreadDrawnPlaceOptions,
    builder="tread_bench.model.methods.tread_drawn_place.network:TreadDrawnPlace",
    tokens=Tokens.BYPASS_VARYING,
    evaluated=Evaluated.DENSE,
    has_modules=False,
    chooses_tokens=False,
    has_shallow_path=False,
    check=_check,
)
