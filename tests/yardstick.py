"""How slow this machine is now, for limits of processor time."""

from __future__ import annotations

import time
from statistics import median

# Names looked up one by one, as in planning: between two machines it takes 3.9 times as long where planning takes 4.3.
LOOP = compile("x = 0\nfor i in range(500_000):\n    x += i * i\n", "yardstick", "exec")
YARDSTICK_S = 0.0325  # the loop's processor time on an idle AMD EPYC with AVX-512, where the limits were set


def slowness() -> float:
    """How many times as long Python takes here and now as where the limits were set: at least 1, and at most 5."""
    seconds = []
    for _ in range(5):
        start = time.process_time()
        exec(LOOP, {})
        seconds.append(time.process_time() - start)
    return min(max(1.0, median(seconds) / YARDSTICK_S), 5.0)
