"""Step times of a thing and its reference, interleaved so that a machine's drift falls on both alike."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PairedTimes:
    """Every sample in order, in milliseconds; the k-th of both belong together."""

    reference_ms: list[float]
    subject_ms: list[float]


def interleave(
    reference: Callable[[], object],
    subject: Callable[[], object],
    pairs: int,
    warmup: int,
    synchronize: Callable[[], None] = lambda: None,
    clock: Callable[[], float] = time.perf_counter,
) -> PairedTimes:
    """Time `pairs` pairs in the order A B B A A B ..., after `warmup` uncounted calls of each.

    `synchronize` waits for the device; `clock` counts seconds.
    """
    for _ in range(warmup):
        reference()
        subject()
    times: dict[bool, list[float]] = {False: [], True: []}
    for pair in range(pairs):
        for is_subject in (False, True) if pair % 2 == 0 else (True, False):
            synchronize()
            start = clock()
            (subject if is_subject else reference)()
            synchronize()
            times[is_subject].append((clock() - start) * 1e3)
    return PairedTimes(times[False], times[True])
