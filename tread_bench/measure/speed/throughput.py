"""Step times of a thing and its reference, interleaved so that a machine's drift falls on both alike; and of a loop."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from tread_bench.data.loader import Loader

T = TypeVar("T")
Ready = Callable[[], Callable[[], object]]  # gets the inputs of its next call ready, and returns that call


@dataclass(frozen=True, slots=True)
class PairedTimes:
    """Every sample in order, in milliseconds; the k-th of both belong together."""

    reference_ms: list[float]
    subject_ms: list[float]


def interleave(
    reference: Ready,
    subject: Ready,
    pairs: int,
    warmup: int,
    synchronize: Callable[[], None] = lambda: None,
    clock: Callable[[], float] = time.perf_counter,
) -> PairedTimes:
    """Time `pairs` pairs in the order A B B A A B ..., after `warmup` uncounted calls of each, their inputs at hand.

    `synchronize` waits for the device; `clock` counts seconds.
    """
    # Warm up.
    for _ in range(warmup):
        reference()()
        subject()()

    # Time pairs, in turn with the reference or the subject first.
    times = PairedTimes([], [])
    timed_reference = (reference, times.reference_ms)
    timed_subject = (subject, times.subject_ms)
    for pair in range(pairs):
        order = (timed_reference, timed_subject) if pair % 2 == 0 else (timed_subject, timed_reference)
        for ready, times_ms in order:
            call = ready()
            synchronize()
            start = clock()
            call()
            synchronize()
            times_ms.append((clock() - start) * 1e3)
    return times


@dataclass(frozen=True, slots=True)
class LoopTime:
    """The mean time of one turn of a training loop, and the share of it in which the device waited for a batch."""

    step_ms: float
    data_wait_share: float


def time_loop(
    batches: Loader[T],
    step: Callable[[T], object],
    steps: int,
    warmup: int,
    synchronize: Callable[[], None] = lambda: None,
    clock: Callable[[], float] = time.perf_counter,
) -> LoopTime:
    """Time `steps` turns together, after `warmup` uncounted ones, in which `batches` come to their usual distance."""
    for _ in range(warmup):
        step(next(batches))
    synchronize()
    start = clock()
    waited_before = batches.waited_s
    for _ in range(steps):
        step(next(batches))
    synchronize()
    seconds = clock() - start
    return LoopTime(seconds / steps * 1e3, (batches.waited_s - waited_before) / seconds)
