"""How slow this machine is now, for limits of processor time."""

from __future__ import annotations

import copy
import time
from statistics import median

YARDSTICK_S = 0.08  # the loop takes 0.12 s on the idle AMD EPYC where the limits were set: half as much again is leeway


def slowness() -> float:
    """How many times as long Python takes here and now as where the limits were set: at least 1, and at most 5."""
    seconds = []
    for _ in range(5):
        start = time.process_time()
        cells = [{"row": str(n), "values": [n, n + 1]} for n in range(100_000)]
        copy.deepcopy(cells[:10_000])
        seconds.append(time.process_time() - start)
    return min(max(1.0, median(seconds) / YARDSTICK_S), 5.0)
