"""Description of SPRINT, without torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from tread_bench.core.config.base import Share
from tread_bench.core.describe.methods import MethodFamily, MethodOptions, Tokens
from tread_bench.core.describe.routes import format_routes
from tread_bench.core.problems import Problem
from tread_bench.model.methods.long_skips import halved_skips

if TYPE_CHECKING:
    from tread_bench.core.config.routed import Setting


class SprintOptions(MethodOptions):
    """Kept tokens pass the route, mask tokens fill the gaps, and a linear layer fuses both paths (SPRINT)."""

    name: Literal["sprint"] = "sprint"
    path_drop: Share = Field(0.1, description="share of the training samples that lose the whole deep path")


def _check(setting: Setting) -> Iterator[Problem]:
    cell, last = setting.cell, setting.family.num_blocks(setting.spec) - 1
    written = format_routes(cell.routes)
    if len(cell.routes) != 1:
        yield Problem(f"method sprint takes one route, here {written}: keep one", ("routes",))
    elif not (cell.routes[0].start >= 1 and cell.routes[0].end < last):
        message = (
            f"method sprint needs dense blocks before and after its route, here {written} of {last + 1} blocks: "
            f"start at 1 or later and end at {last - 1} or before"
        )
        yield Problem(message, ("routes",))
    yield from halved_skips(setting)


SPRINT = MethodFamily(
    name="sprint",
    options=SprintOptions,
    builder="tread_bench.model.methods.sprint.network:Sprint",
    tokens=Tokens.DROP,
    has_modules=True,
    has_shallow_path=True,
    check=_check,
)
