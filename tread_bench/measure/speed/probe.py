"""Fixed work, timed beside a cell: in its units, step times of one machine on two days are comparable.

A large matrix product says how fast the machine computes at best: a step's MACs per second over this rate is its MFU.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F

SIDE = 512  # of the matrices
HEADS = 8
TOKENS = 256
WIDTH = 64  # of a head
WARMUP = 3
REPEATS = 15
LARGE_SIDE = {"cpu": 1024, "cuda": 8192}  # of the matrices of a large product
LARGE_REPEATS = 5


def probe_ms(
    device: torch.device,
    synchronize: Callable[[], None] = lambda: None,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Median time in ms of a float32 product of two 512 x 512 matrices and attention of 8 heads over 256 tokens.

    `synchronize` waits for the device; `clock` returns seconds.
    """
    # The same numbers on every machine.
    generator = torch.Generator().manual_seed(0)
    a, b = torch.randn(2, SIDE, SIDE, generator=generator).to(device)
    q, k, v = torch.randn(3, 1, HEADS, TOKENS, WIDTH, generator=generator).to(device)

    def both() -> None:
        a @ b
        F.scaled_dot_product_attention(q, k, v)

    return median_s(both, REPEATS, synchronize, clock) * 1e3


def product_macs_per_s(
    device: torch.device,
    dtype: torch.dtype = torch.float32,
    synchronize: Callable[[], None] = lambda: None,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Multiply-adds per second of a product of two large square matrices of `dtype`, by the median of a few."""
    side = LARGE_SIDE[device.type]
    a, b = torch.ones(2, side, side, dtype=dtype, device=device)
    return side**3 / median_s(lambda: a @ b, LARGE_REPEATS, synchronize, clock)


def median_s(
    work: Callable[[], object], repeats: int, synchronize: Callable[[], None], clock: Callable[[], float]
) -> float:
    """Median seconds of some work, after a warm-up."""
    times = []
    with torch.no_grad():
        for _ in range(WARMUP + repeats):
            synchronize()
            start = clock()
            work()
            synchronize()
            times.append(clock() - start)
    return statistics.median(times[WARMUP:])
