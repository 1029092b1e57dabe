"""Step times of a subject and its reference, interleaved so that drift affects both alike; and of a training loop."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from tread_bench.data.loader import Loader

T = TypeVar("T")
Ready = Callable[[], Callable[[], object]]  # prepares the inputs of its next call, and returns that call


@dataclass(frozen=True, slots=True)
class PairedTimes:
    """All samples in order, in milliseconds; the k-th of both are a pair."""

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
    """Time `pairs` pairs in the order A B B A A B ..., after `warmup` uncounted calls of each, with inputs prepared.

    `synchronize` waits for the device; `clock` returns seconds.
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
    """The mean time of one iteration of a training loop, and its share in which the device waited for a batch."""

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
    """Time `steps` iterations together, after `warmup` uncounted ones, in which `batches` get ahead as usual."""
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
