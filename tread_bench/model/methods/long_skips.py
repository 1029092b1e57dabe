"""A rule for methods that skip a route's blocks. No torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tread_bench.core.describe.routes import Route
from tread_bench.core.problems import Problem

if TYPE_CHECKING:
    from tread_bench.core.config.routed import Setting


def halved_skips(setting: Setting) -> Iterator[Problem]:
    """Report routes that contain one end of a long skip but not the other."""
    skips = setting.family.long_skips(setting.spec)
    last = setting.family.num_blocks(setting.spec) - 1
    for route in setting.cell.routes:
        start, end = int(route.start), int(route.end)
        halved = [(a, b) for a, b in skips if (start <= a <= end) != (start <= b <= end)]
        if halved:
            a, b = halved[0]
            message = (
                f"method {setting.cell.method.name} with route {route}: a long skip of {setting.family.name} joins "
                f"block {a} to block {b}, of which only one is inside; take a route that is symmetrical about the "
                f"middle, such as {Route(min(start, last - end), max(end, last - start), route.rate)}"
            )
            yield Problem(message, ("routes",))
