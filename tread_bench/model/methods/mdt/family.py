"""Description of MDT, without torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from tread_bench.core.config.base import Int
from tread_bench.core.describe.methods import MethodFamily, MethodOptions, Tokens
from tread_bench.core.describe.routes import format_routes
from tread_bench.core.problems import Problem

if TYPE_CHECKING:
    from tread_bench.core.config.routed import Setting


class MdtOptions(MethodOptions):
    """Two passes: over all tokens, and with some masked until a side-interpolater predicts them (MDT)."""

    name: Literal["mdt"] = "mdt"
    interpolater_heads: Int = Field(16, ge=1, description="heads of the side-interpolater; must divide the width")


def _check(setting: Setting) -> Iterator[Problem]:
    cell, last = setting.cell, setting.family.num_blocks(setting.spec) - 1
    places = [(int(route.start), int(route.end)) for route in cell.routes]
    if len(places) != 1 or places[0][0] != 0 or places[0][1] == last:
        message = (
            f"method mdt masks tokens from the first block on, and its last blocks decode all of them, here "
            f"{format_routes(cell.routes)} of {last + 1} blocks: "
            f"write one route 0:END@RATE, ending at {last - 1} or before"
        )
        yield Problem(message, ("routes",))
    if cell.schedule.warmup:
        rule = "its two passes do not become one by degrees"
        yield Problem(f"schedule.warmup with method mdt: {rule}; leave it out", ("schedule", "warmup"))


MDT = MethodFamily(
    name="mdt",
    options=MdtOptions,
    builder="tread_bench.model.methods.mdt.network:Mdt",
    tokens=Tokens.DROP,
    has_modules=True,
    check=_check,
)
