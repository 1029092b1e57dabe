"""Exponential moving average of weights, with warm-up."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor


def decay_at(step: int, decay: float) -> float:
    """min(decay, (1 + step) / (10 + step)), step counted from 0.

    A plain 0.9999 would leave most of the initial weights in a run of a few thousand steps.
    """
    return min(decay, (1 + step) / (10 + step))


@torch.no_grad()
def update(average: Iterable[Tensor], weights: Iterable[Tensor], decay: float) -> None:
    """average <- decay * average + (1 - decay) * weights, in place."""
    torch._foreach_lerp_(list(average), list(weights), 1 - decay)
