"""The share of the routes' rates over the iterations."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator

from tread_bench.core.config.training import RoutingSchedule


def dense_from(iterations: int, schedule: RoutingSchedule) -> int | None:
    """Return the first step of the dense part; None if there is none."""
    return None if schedule.until == 1 else routed_steps(iterations, schedule)


def routed_steps(iterations: int, schedule: RoutingSchedule) -> int:
    """Return the number of steps before the dense part."""
    return round(schedule.until * iterations)


def routing_share(step: int, iterations: int, schedule: RoutingSchedule) -> float:
    """Return the share of the rates at `step` (from 0): linear from 0 to 1 over the warm-up, 0 in the dense part."""
    dense, warmup = dense_from(iterations, schedule), round(schedule.warmup * iterations)
    if dense is not None and step >= dense:
        return 0.0
    return min(1.0, step / warmup) if warmup else 1.0


def stretches(
    iterations: int, schedule: RoutingSchedule, bypassed: Callable[[float], tuple[int, ...]]
) -> Iterator[tuple[int, float]]:
    """Yield (number of steps, share) of consecutive stretches over which the number of bypassed tokens is constant.

    Args:
        bypassed: (share) -> tokens that bypass each route; must not decrease with the share.
    """

    def at(step: int) -> tuple[int, ...]:
        return bypassed(routing_share(step, iterations, schedule))

    step, end = 0, routed_steps(iterations, schedule)
    while step < end:
        last = bisect_right(range(end), at(step), lo=step, key=at)
        yield last - step, routing_share(step, iterations, schedule)
        step = last
    if end < iterations:
        yield iterations - end, 0.0


def summed_share(until: int, iterations: int, schedule: RoutingSchedule) -> float:
    """Return the sum of `routing_share` over the first `until` of all steps."""
    routed = min(until, routed_steps(iterations, schedule))
    warmup = round(schedule.warmup * iterations)
    rising = min(routed, warmup)
    return routed - rising + (rising * (rising - 1) / (2 * warmup) if warmup else 0)
