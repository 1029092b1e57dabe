"""A fixed amount of work, timed beside a cell: in its units, step times of one machine on two days are comparable."""

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

    # Time both operations together.
    times = []
    with torch.no_grad():
        for _ in range(WARMUP + REPEATS):
            synchronize()
            start = clock()
            a @ b
            F.scaled_dot_product_attention(q, k, v)
            synchronize()
            times.append((clock() - start) * 1e3)
    return statistics.median(times[WARMUP:])
