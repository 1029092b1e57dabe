"""Learning rate and routing over the iterations."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator

from tread_bench.core.config.training import RoutingSchedule, Training


def warmup_factor(step: int, warmup: int) -> float:
    """Share of the learning rate at `step` (from 0): linear up to 1 over `warmup` steps, then 1."""
    return min(1.0, (step + 1) / warmup) if warmup else 1.0


def dense_from(iterations: int, schedule: RoutingSchedule) -> int | None:
    """The first step of the dense part; None where there is none."""
    return None if schedule.until == 1 else routed_steps(iterations, schedule)


def routed_steps(iterations: int, schedule: RoutingSchedule) -> int:
    """Steps before the dense part."""
    return round(schedule.until * iterations)


def routing_share(step: int, iterations: int, schedule: RoutingSchedule) -> float:
    """Share of each route's rate at `step` (from 0): linear from 0 to 1 over the warm-up, 0 in the dense part."""
    dense, warmup = dense_from(iterations, schedule), round(schedule.warmup * iterations)
    if dense is not None and step >= dense:
        return 0.0
    return min(1.0, step / warmup) if warmup else 1.0


def learning_rate(step: int, training: Training, schedule: RoutingSchedule) -> float:
    """At `step` (from 0): warmed up, and in the dense part the one that the schedule may name."""
    dense = dense_from(training.iterations, schedule)
    rate = training.learning_rate
    if dense is not None and step >= dense and schedule.dense_learning_rate is not None:
        rate = schedule.dense_learning_rate
    return rate * warmup_factor(step, training.warmup)


def stretches(
    iterations: int, schedule: RoutingSchedule, bypassed: Callable[[float], tuple[int, ...]]
) -> Iterator[tuple[int, float]]:
    """(number of steps, share) of stretches, together all steps, in which the number of bypassed tokens stays.

    Args:
        bypassed: tokens that bypass each route at a share; never fewer at a larger one.
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


def mean_share(iterations: int, schedule: RoutingSchedule) -> float:
    """Mean of `routing_share` over all steps."""
    end, warmup = routed_steps(iterations, schedule), round(schedule.warmup * iterations)
    return (end - (warmup + 1) / 2 if warmup else end) / iterations
