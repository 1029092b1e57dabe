"""Description of token dropping, without torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from tread_bench.core.describe.methods import MethodFamily, MethodOptions, Tokens
from tread_bench.core.describe.routes import Route
from tread_bench.core.problems import Problem

if TYPE_CHECKING:
    from tread_bench.core.config.routed import Setting


class DropOptions(MethodOptions):
    """Tokens are dropped inside their route; after it, a learned mask token takes their place."""

    name: Literal["drop"] = "drop"


def _check(setting: Setting) -> Iterator[Problem]:
    """A long skip from before a route's end to a block after it would bring dropped tokens back."""
    skips = setting.family.long_skips(setting.spec)
    last = setting.family.num_blocks(setting.spec) - 1
    for route in setting.cell.routes:
        start, end = int(route.start), int(route.end)
        over = [(a, b) for a, b in skips if a <= end < b]
        if over:
            a, b = over[-1]
            message = (
                f"method drop with route {route}: a long skip of {setting.family.name} joins block {a} to block {b} "
                "after the route, so that dropped tokens would come back; end the route at the last block: "
                f"{Route(start, last, route.rate)}"
            )
            yield Problem(message, ("routes",))


DROP = MethodFamily(
    name="drop",
    options=DropOptions,
    builder="tread_bench.model.methods.drop.network:Drop",
    tokens=Tokens.DROP,
    has_modules=True,
    check=_check,
)
