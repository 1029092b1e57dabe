"""Times of two sides, in turn in one process, and what a row gets to measure with."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch

from benchmarks.figure import Agreement, Figure
from benchmarks.yardstick import Product
from tread_bench.core.numbers.statistics import paired_ratio
from tread_bench.measure.speed.throughput import PairedTimes, Ready, interleave

SECONDS = 20.0  # of measuring that a row gets
FEWEST_PAIRS = 4
MOST_PAIRS = 60
CHUNK = 2  # pairs: A B B A
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Bench:
    """The conditions of a row; on one thread the clock is the process's CPU time, else the wall's.

    `products` are the yardstick's fastest matrix products, by precision.
    """

    threads: int = 1
    products: Mapping[str, Product] = field(default_factory=dict)
    seconds: float = SECONDS
    wall: Clock = time.perf_counter

    @property
    def clock(self) -> Clock:
        return time.process_time if self.threads == 1 else self.wall

    def faster(
        self,
        reference: Ready,
        subject: Ready,
        agreement: Agreement | None = None,
        *,
        fewest: int = FEWEST_PAIRS,
        clock: Clock | None = None,
        facts: Mapping[str, float] | None = None,
    ) -> Figure:
        """How many times faster `subject` is than `reference`, both warm; pairs are taken while there is time."""
        seconds = clock or self.clock

        def now() -> float:
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            return seconds()

        times = PairedTimes([], [])
        start = self.wall()
        while len(times.subject_ms) < fewest or (
            len(times.subject_ms) < MOST_PAIRS and self.wall() < start + self.seconds
        ):
            more = interleave(reference, subject, CHUNK, warmup=0, now=now)
            times.reference_ms.extend(more.reference_ms)
            times.subject_ms.extend(more.subject_ms)
        return ratio(times.reference_ms, times.subject_ms, agreement, facts)


def ratio(
    reference_ms: list[float],
    subject_ms: list[float],
    agreement: Agreement | None = None,
    facts: Mapping[str, float] | None = None,
) -> Figure:
    """Reference over subject, pair by pair."""
    samples = {"reference_ms": reference_ms, "subject_ms": subject_ms}
    return Figure(*paired_ratio(reference_ms, subject_ms), agreement, samples, facts or {})


def always(call: Callable[[], object], calls: int = 1) -> Ready:
    """A side of which every call is the same; `calls` of them are timed together, where one is short."""

    def together() -> None:
        for _ in range(calls):
            call()

    return lambda: call if calls == 1 else together
