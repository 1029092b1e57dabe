"""Learning rate over the iterations."""

from __future__ import annotations


def warmup_factor(step: int, warmup: int) -> float:
    """Share of the learning rate at `step` (from 0): linear up to 1 over `warmup` steps, then 1."""
    return min(1.0, (step + 1) / warmup) if warmup else 1.0
